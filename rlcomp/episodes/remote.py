"""Functions that a worker process calls to step environments for the trainer, without torch."""

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
    check_facts,
    check_stops,
    check_turn,
)
from rlcomp.interfaces.task import Example
from rlcomp.workers.function_call import load

REPLAY_DIFFERS = "the environment, replayed from its seed, gave another turn"

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
        if entries.keys() != {_TARGET, _ARGUMENTS}:
            return entries
        target, arguments = entries[_TARGET], entries[_ARGUMENTS]
        assert isinstance(target, str)
        assert isinstance(arguments, dict)
        return Unbuilt(target, arguments)
    return [from_json(each) for each in value] if isinstance(value, list) else value


class _LiveEpisode:
    """Environment of an episode, with its last turn and the number of its actions."""

    def __init__(self, environment: Environment, turn: Turn) -> None:
        self.environment = environment
        self.actions = 0
        self.digest = turn_digest(b"", turn)
        self.turn = turn

    def step(self, action: str) -> None:
        self.turn = check_turn(self.environment.step(action))
        self.digest = turn_digest(self.digest, self.turn)
        self.actions += 1


# The episodes of the current batch, and its number.
_episodes: dict[int, _LiveEpisode] = {}
_batch: list[int] = [-1]


def act(
    *,
    environment: Sequence[Any],
    batch: int,
    episode: int,
    start: Mapping[str, Any],
    actions: Sequence[str],
    digest: str,
) -> dict[str, Any]:
    """Return the environment's turn after the last of the actions, or after the reset.

    A process without the episode in that state replays it from its start.

    Args:
        environment: dotted path and arguments of the class.
        batch: number of the batch; episodes of another batch are closed.
        episode: number of the episode.
        start: ``prompt``, ``answer``, ``columns`` of the example, and ``seed``.
        actions: all actions so far.
        digest: digest of the turns before the last action, in hex; unused without actions.

    Returns:
        The fields of a :class:`rlcomp.interfaces.environment.Turn`, ``facts``, the new ``digest``.

    Raises:
        RuntimeError: the replay gave another turn.
    """
    if batch != _batch[0]:
        close_all(batch=batch)
    live = _episodes.pop(episode, None)
    if live is None or live.actions != len(actions) - 1:
        _close([live.environment] if live else [])
        live = _replay(environment, start, actions[:-1])
    with _close_on_error(live.environment):
        if actions:
            if live.digest.hex() != digest:
                raise RuntimeError(
                    f"{REPLAY_DIFFERS}: derive all its random draws from the seed of reset, or set "
                    "environment_pool=in_process"
                )
            live.step(actions[-1])
        facts = check_facts(live.environment.facts())
    _episodes[episode] = live
    return {**asdict(live.turn), "facts": facts, "digest": live.digest.hex()}


def _make(environment: Sequence[Any]) -> Any:  # noqa: ANN401
    target, arguments = environment
    values: Any = from_json(arguments)
    return load(target, values)


def _replay(
    environment: Sequence[Any], start: Mapping[str, Any], actions: Iterable[str]
) -> _LiveEpisode:
    instance = _make(environment)
    example = Example(start["prompt"], start["answer"], "", columns=start["columns"])
    with _close_on_error(instance):
        live = _LiveEpisode(instance, check_turn(instance.reset(example, start["seed"])))
        for action in actions:
            live.step(action)
    return live


@contextlib.contextmanager
def _close_on_error(environment: Environment) -> Iterator[None]:
    try:
        yield
    except BaseException:
        _close([environment])
        raise


def close_all(*, batch: int) -> None:
    """Close all environments of this process.

    Args:
        batch: number of the batch to which later environments belong.
    """
    _close(each.environment for each in _episodes.values())
    _episodes.clear()
    _batch[0] = batch


def stops(*, environment: Sequence[Any]) -> list[str]:
    """Return the texts that end a turn of an environment."""
    instance = _make(environment)
    try:
        return [*check_stops(instance)]
    finally:
        instance.close()


def turn_digest(before: bytes, turn: Turn) -> bytes:
    """Return the digest of the turns so far; a replay must give the same digest.

    ``before`` is the digest of the turns before ``turn``; empty if there are none.
    """
    fields = astuple(turn)
    return hashlib.sha256(before + repr(fields).encode("utf-8", "replace")).digest()


def _close(environments: Iterable[Environment]) -> None:
    for environment in environments:
        with contextlib.suppress(Exception):  # the episode is over anyway
            environment.close()
