"""Order of phases: each filled in from the one it is ``like``, sorted by ``after``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from omegaconf import DictConfig, OmegaConf, open_dict

from rlcomp.errors import ConfigError, nearest

Bodies = dict[str, Any]

# What belongs to the place of a phase, not to what it does: no other takes it over.
_OWN = ("after", "on_begin")


def arranged(config: DictConfig) -> DictConfig:
    """Return a config whose phases are whole and stand in the order in which they run.

    ``phases.rl2: {like: rl, steps: 25}`` takes over what ``rl`` says, but for ``after`` and
    ``on_begin``; mappings are merged, and whatever else it says itself takes the place of that.
    ``after: reward_model`` (or a list) holds a phase back until those are over; apart from that the
    order is that of the config, in which phases of inherited recipes come first. A phase that is
    null, which a recipe may set where it inherits one, is left out.

    Args:
        config: a whole one; it is left as it is.

    Returns:
        The config itself where no phase says any of these.

    Raises:
        ConfigError: a phase is named that is not there, or phases wait for one another.

    Examples:
        >>> phases = {"rl": {"after": "sft", "steps": 9}, "sft": {"like": "rl", "steps": 5}}
        >>> arranged(OmegaConf.create({"phases": phases})).phases
        {'sft': {'steps': 5}, 'rl': {'steps': 9}}
    """
    plain = OmegaConf.to_container(config, resolve=False)
    bodies = plain.get("phases") if isinstance(plain, dict) else None
    if not isinstance(bodies, dict) or not any(map(_is_placed, bodies.values())):
        return config
    there = {str(name): body for name, body in bodies.items() if body is not None}
    whole = {name: _filled(name, there, ()) for name in there}
    ordered = {name: _without(whole[name], "after") for name in _order(whole)}
    rearranged = config.copy()
    with open_dict(rearranged):
        rearranged.phases = OmegaConf.create(ordered)
    return rearranged


def _is_placed(body: object) -> bool:
    if isinstance(body, Mapping):
        return not body.keys().isdisjoint({"like", "after"})
    return body is None


def _without(body: object, *keys: str) -> Any:  # noqa: ANN401
    if not isinstance(body, Mapping):
        return body
    return {key: value for key, value in body.items() if key not in keys}


def _filled(name: str, bodies: Bodies, seen: tuple[str, ...]) -> Any:  # noqa: ANN401
    """Return a phase with the settings of the one that it is like."""
    body = bodies[name]
    model = body.get("like") if isinstance(body, Mapping) else None
    if model is None:
        return _without(body, "like")
    path = (*seen, name)
    if model in path:
        circle = " -> ".join((*path, str(model)))
        raise ConfigError(f"phases.{name}.like is {model!r}: circular ({circle}); take one out")
    _check_known(f"phases.{name}.like", model, bodies)
    return _merged(_without(_filled(model, bodies, path), *_OWN), _without(body, "like"))


def _merged(base: Any, own: Any) -> Any:  # noqa: ANN401
    """Merge mappings at every depth; replace anything else."""
    if not isinstance(base, Mapping) or not isinstance(own, Mapping):
        return own
    return {**base, **{key: _merged(base.get(key), value) for key, value in own.items()}}


def _order(bodies: Bodies) -> list[str]:
    """Sort the names, each behind those that it comes after, else as they stand."""
    waits = {name: _after(name, body, bodies) for name, body in bodies.items()}
    order: list[str] = []
    while len(order) < len(waits):
        left = [name for name in waits if name not in order]
        ready = [name for name in left if waits[name] <= {*order}]
        if not ready:
            raise ConfigError(
                f"phases.{left[0]}.after: {', '.join(left)} wait for one another; take one "
                f"'after' out, such as '~phases.{left[0]}.after'"
            )
        order.append(ready[0])
    return order


def _after(name: str, body: object, bodies: Bodies) -> set[str]:
    names = body.get("after") if isinstance(body, Mapping) else None
    named = names if isinstance(names, list) else [] if names is None else [names]
    for other in named:
        _check_known(f"phases.{name}.after", other, bodies)
    return {*named}


def _check_known(where: str, name: object, bodies: Bodies) -> None:
    if name not in bodies:
        known = nearest(str(name), map(str, bodies))
        raise ConfigError(
            f"{where} is {name!r}: there is no such phase{known}; name another, or leave it out, "
            f"'~{where}'"
        )
