"""Order of phases: a phase inherits settings by ``like``, and waits for others by ``after``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from omegaconf import DictConfig, OmegaConf, open_dict

from rlcomp.errors import ConfigError, nearest

Bodies = dict[str, Any]

# Settings that a phase does not inherit.
_NOT_INHERITED = ("after", "on_begin")


def order_phases(config: DictConfig) -> DictConfig:
    """Return a config with whole phases in the order in which they run.

    ``phases.rl2: {like: rl, steps: 25}`` inherits the settings of ``rl`` except ``after`` and
    ``on_begin``; mappings are merged, other values replaced. ``after: reward_model`` (or a list)
    delays a phase until the named phases are over. Otherwise phases run in the order of the config,
    in which phases of inherited recipes come first. A null phase, by which a recipe drops an
    inherited one, is left out.

    Args:
        config: a whole config; unchanged.

    Returns:
        The config itself if no phase has ``like`` or ``after``, and none is null.

    Raises:
        ConfigError: a phase refers to an unknown one, or phases wait for one another.

    Examples:
        >>> phases = {"rl": {"after": "sft", "steps": 9}, "sft": {"like": "rl", "steps": 5}}
        >>> order_phases(OmegaConf.create({"phases": phases})).phases
        {'sft': {'steps': 5}, 'rl': {'steps': 9}}
    """
    plain = OmegaConf.to_container(config, resolve=False)
    bodies = plain.get("phases") if isinstance(plain, dict) else None
    if not isinstance(bodies, dict) or not any(map(_has_order, bodies.values())):
        return config
    present = {str(name): body for name, body in bodies.items() if body is not None}
    whole = {name: _with_inherited(name, present, ()) for name in present}
    ordered = {name: _without(whole[name], "after") for name in _order(whole)}
    result = config.copy()
    with open_dict(result):
        result.phases = OmegaConf.create(ordered)
    return result


def _has_order(body: object) -> bool:
    if isinstance(body, Mapping):
        return not body.keys().isdisjoint({"like", "after"})
    return body is None


def _without(body: object, *keys: str) -> Any:  # noqa: ANN401
    if not isinstance(body, Mapping):
        return body
    return {key: value for key, value in body.items() if key not in keys}


def _with_inherited(name: str, bodies: Bodies, chain: tuple[str, ...]) -> Any:  # noqa: ANN401
    """Return a phase with the settings of the phase that it is ``like``."""
    body = bodies[name]
    parent = body.get("like") if isinstance(body, Mapping) else None
    if parent is None:
        return _without(body, "like")
    chain = (*chain, name)
    if parent in chain:
        circle = " -> ".join((*chain, str(parent)))
        raise ConfigError(f"phases.{name}.like is {parent!r}: circular ({circle}); take one out")
    _check_known(f"phases.{name}.like", parent, bodies)
    return _merge(
        _without(_with_inherited(parent, bodies, chain), *_NOT_INHERITED), _without(body, "like")
    )


def _merge(base: Any, own: Any) -> Any:  # noqa: ANN401
    """Merge mappings at every depth; replace anything else."""
    if not isinstance(base, Mapping) or not isinstance(own, Mapping):
        return own
    return {**base, **{key: _merge(base.get(key), value) for key, value in own.items()}}


def _order(bodies: Bodies) -> list[str]:
    """Sort phases by ``after``, otherwise in the order of the config."""
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
    value = body.get("after") if isinstance(body, Mapping) else None
    names = value if isinstance(value, list) else [] if value is None else [value]
    for other in names:
        _check_known(f"phases.{name}.after", other, bodies)
    return {*names}


def _check_known(where: str, name: object, bodies: Bodies) -> None:
    if name not in bodies:
        known = nearest(str(name), map(str, bodies))
        raise ConfigError(
            f"{where} is {name!r}: there is no such phase{known}; name another, or leave it out, "
            f"'~{where}'"
        )
