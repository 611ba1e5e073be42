"""Functions of a worker that holds environments of another process's episodes. No torch."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, astuple
from typing import Any

from rlcomp.arguments import Unbuilt
from rlcomp.interfaces.environment import (
    Environment,
    Turn,
    checked,
    checked_facts,
    checked_stops,
)
from rlcomp.interfaces.task import Example
from rlcomp.workers.function_call import load

SAYS_ELSE = "played again from its seed, the environment says something else"

_TARGET, _ARGUMENTS = "_target_", "_arguments_"


def to_json(value: object) -> object:
    """Convert the descriptions in a value to mappings; values of other types stay unchanged.

    Examples:
        >>> to_json({"tool": Unbuilt("a.B", {"n": 1})})
        {'tool': {'_target_': 'a.B', '_arguments_': {'n': 1}}}
    """
    if isinstance(value, Unbuilt):
        return {_TARGET: value.target, _ARGUMENTS: to_json(value.arguments)}
    if isinstance(value, Mapping):
        return {name: to_json(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_json(each) for each in value]
    return value


def from_json(value: object) -> object:
    """Invert :func:`to_json`, with lists for tuples.

    Examples:
        >>> from_json({"_target_": "a.B", "_arguments_": {}})
        Unbuilt(target='a.B', arguments={})
    """
    if isinstance(value, dict):
        entries = {name: from_json(each) for name, each in value.items()}
        return _described(entries) if entries.keys() == {_TARGET, _ARGUMENTS} else entries
    return [from_json(each) for each in value] if isinstance(value, list) else value


def _described(entries: dict[str, object]) -> Unbuilt:
    target, arguments = entries[_TARGET], entries[_ARGUMENTS]
    assert isinstance(target, str)
    assert isinstance(arguments, dict)
    return Unbuilt(target, arguments)


class _Held:
    """An environment of this process, and the number of actions it has answered."""

    def __init__(self, environment: Environment, turn: Turn) -> None:
        self.environment = environment
        self.actions = 0
        self.heard = digest(b"", turn)
        self.turn = turn

    def step(self, action: str) -> None:
        self.turn = checked(self.environment.step(action))
        self.heard = digest(self.heard, self.turn)
        self.actions += 1


# The environments of the current batch of episodes, and its number.
_held: dict[int, _Held] = {}
_batch: list[int] = [-1]


def act(
    *,
    environment: Sequence[Any],
    batch: int,
    episode: int,
    start: Mapping[str, Any],
    actions: Sequence[str],
    heard: str,
) -> dict[str, Any]:
    """Return the environment's turn after the last of the actions, or after the reset.

    A process that does not hold the episode in the right state plays it again from its start.

    Args:
        environment: dotted path and arguments of the class.
        batch: number of the batch; episodes of another batch are closed.
        episode: number of the episode.
        start: ``prompt``, ``answer``, ``columns`` of the example, and ``seed``.
        actions: all actions so far.
        heard: digest of the turns before the last action.

    Returns:
        The fields of a :class:`rlcomp.interfaces.environment.Turn`, ``facts`` and ``heard``.

    Raises:
        RuntimeError: played again, the environment says something else.
    """
    if batch != _batch[0]:
        forget(batch=batch)
    held = _held.pop(episode, None)
    if held is None or held.actions != len(actions) - 1:
        _close([held.environment] if held else [])
        held = _replayed(environment, start, actions[:-1])
    with _closed_on_error(held.environment):
        if actions:
            if held.heard.hex() != heard:
                raise RuntimeError(
                    f"{SAYS_ELSE}: let all that it draws follow from the seed of reset, or take "
                    "environment_pool=in_process"
                )
            held.step(actions[-1])
        facts = checked_facts(held.environment.facts())
    _held[episode] = held
    return {**asdict(held.turn), "facts": facts, "heard": held.heard.hex()}


def _made(environment: Sequence[Any]) -> Any:  # noqa: ANN401
    target, arguments = environment
    values: Any = from_json(arguments)
    return load(target, values)


def _replayed(
    environment: Sequence[Any], start: Mapping[str, Any], actions: Iterable[str]
) -> _Held:
    instance = _made(environment)
    example = Example(start["prompt"], start["answer"], "", columns=start["columns"])
    with _closed_on_error(instance):
        held = _Held(instance, checked(instance.reset(example, start["seed"])))
        for action in actions:
            held.step(action)
    return held


@contextlib.contextmanager
def _closed_on_error(environment: Environment) -> Iterator[None]:
    try:
        yield
    except BaseException:
        _close([environment])
        raise


def forget(*, batch: int) -> None:
    """Close the environments of this process at the end of a batch."""
    _close(each.environment for each in _held.values())
    _held.clear()
    _batch[0] = batch


def stops(*, environment: Sequence[Any]) -> list[str]:
    """Return the texts that end a turn of an environment."""
    instance = _made(environment)
    try:
        return [*checked_stops(instance)]
    finally:
        instance.close()


def digest(before: bytes, turn: Turn) -> bytes:
    """Return the digest of the turns so far; a replayed environment must give the same."""
    fields = astuple(turn)
    return hashlib.sha256(before + repr(fields).encode("utf-8", "replace")).digest()


def _close(environments: Iterable[Environment]) -> None:
    for each in environments:
        with contextlib.suppress(Exception):  # the episode is over anyway
            each.close()
