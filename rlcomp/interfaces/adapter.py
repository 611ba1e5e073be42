"""Adapters: environments of other packages behind rlcomp's interface of environments."""

from __future__ import annotations

import json
import re
from abc import ABCMeta, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from rlcomp.arguments import Checked, NonEmptyText, RegularExpression
from rlcomp.errors import ConfigError, DataError, require
from rlcomp.interfaces.environment import Turn
from rlcomp.interfaces.task import Example
from rlcomp.workers.function_call import load

_DOTTED = re.compile(r"\w+(\.\w+)+")
_OBSERVATION = "{observation}"


class _AdapterMeta(Checked, ABCMeta):
    """Metaclass that checks arguments and refuses classes that lack a method."""


class Adapter(metaclass=_AdapterMeta):
    r"""Environment that wraps an environment of another package, the peer.

    The policy's text becomes an action of the peer, and the peer's answer becomes a turn. A
    subclass defines ``reset`` and ``answer``, and creates the peer (``self.peer``) by
    ``self.make``: the package's function ``make``, which gets ``name`` as first argument, or the
    class at the dotted path ``name``. A turn without a readable action does not reach the peer.
    Such a turn, and a turn whose action the peer does not know (:meth:`answer` returns None), is
    counted in ``unread`` and answered by ``unreadable``.

    Class attributes:
        package: name of the peer's package to import.
        extra: extra of rlcomp that installs the package.
        unreadable: observation after a turn without a valid action.

    Args:
        name: name of the environment in its package, or the dotted path of a class.
        settings: arguments of the peer's constructor.
        stops: texts that end a turn of the policy; EOS always does.
        action_pattern: regular expression; group 1 of its last match is the action. null: the whole
            turn, without its stop text and surrounding space.
        wording: template of an observation, with ``{observation}`` once. A long observation is
            cut; the text after ``{observation}`` is never cut.

    Raises:
        ConfigError: the pattern has no group, or the wording does not have ``{observation}`` once.
        MissingExtra: the package is not installed.
    """

    package = ""
    extra = ""
    peer: Any = None
    unreadable = "No action can be read in this."

    def __init__(
        self,
        name: NonEmptyText,
        *,
        settings: Mapping[str, Any] | None = None,
        stops: Sequence[NonEmptyText] = (),
        action_pattern: RegularExpression | None = None,
        wording: NonEmptyText = "\n{observation}\n",
    ) -> None:
        if action_pattern is not None and not re.compile(action_pattern).groups:
            raise ConfigError(
                f"action_pattern is {action_pattern!r}: its group 1 is the action, as in "
                "'<action>(.*?)</action>'"
            )
        if wording.count(_OBSERVATION) != 1:
            raise ConfigError(f"wording is {wording!r}: must have {_OBSERVATION} once")
        self.name = name
        self.settings = dict(settings or {})
        self.stops = tuple(stops)
        self.action_pattern = action_pattern
        self.wording = wording
        self.unread = 0
        self.anchor: str | None = None
        self.make = self._maker()
        self.prepare()

    def _maker(self) -> Callable[..., Any]:
        if _DOTTED.fullmatch(self.name):
            module = self.name.rpartition(".")[0]
            if module.split(".")[0] == self.package:
                require(module, self.extra)
            return load(self.name, None)
        return partial(require(self.package, self.extra).make, self.name)

    def prepare(self) -> None:
        """Check and load what needs no example, so that faults show before an episode."""

    @abstractmethod
    def reset(self, example: Example, seed: int) -> Turn:
        """Begin an episode; return its first turn."""

    @abstractmethod
    def answer(self, action: str) -> Turn | None:
        """Return the peer's answer to an action; None if it is not a valid action."""

    def step(self, action: str) -> Turn:
        """Return the peer's answer to the action in ``action``, the text of the policy's turn.

        Without a valid action the answer is ``unreadable``, with the anchor of the last valid one:
        the state of the peer is the same.
        """
        peer_action = self._read_action(action)
        turn = None if peer_action is None else self.answer(peer_action)
        if turn is None:
            self.unread += 1
            return self.turn(self.unreadable, anchor=self.anchor)
        self.anchor = turn.anchor
        return turn

    def _read_action(self, text: str) -> str | None:
        """Return the action in the text of a turn; None if the pattern or group 1 has no match."""
        if self.action_pattern is not None:
            matches = list(re.finditer(self.action_pattern, text))
            return matches[-1][1] if matches else None
        for stop in self.stops:
            text = text.removesuffix(stop)
        return text.strip()

    def turn(
        self,
        observation: str,
        *,
        reward: float = 0.0,
        done: bool = False,
        anchor: str | None = None,
    ) -> Turn:
        """Return a turn with an observation in ``wording``; an empty observation has no wording."""
        before, _, closing = self.wording.partition(_OBSERVATION) if observation else ("", "", "")
        return Turn(
            observation=before + observation,
            closing=closing,
            reward=reward,
            done=done,
            anchor=anchor,
        )

    def facts(self) -> Mapping[str, float]:
        """Return the number of turns without a valid action: ``unread``."""
        return {"unread": float(self.unread)}

    def close(self) -> None:
        """Close the peer, if there is one."""
        if self.peer is not None:
            self.peer.close()


def world_seed(example: Example, seed: int) -> int:
    """Return the seed of an episode's environment, below 2^31.

    It is the example's column ``seed``, so that all episodes of a prompt start alike; without this
    column it is the argument ``seed``.

    Raises:
        DataError: the column is not an integer of at least 0.
    """
    value = example.columns.get("seed", seed)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise DataError(f"column seed is {value!r:.60}: must be an integer of at least 0")
    return value % 2**31


def action_number(action: str, names: Sequence[str]) -> str | int:
    """Return the number of a discrete action by its name or, without names, from its digits.

    Any other action, and a number of ten digits or more, is returned unchanged.

    Examples:
        >>> action_number("down", ["left", "down"]), action_number("3", [])
        (1, 3)
    """
    if action in names:
        return names.index(action)
    digits = action.isascii() and action.isdecimal() and len(action) < 10
    return int(action) if digits and not names else action


def observation_text(observation: object) -> str:
    """Return an observation as a text; other types than texts become JSON.

    Examples:
        >>> observation_text("You win."), observation_text({"hand": (3, 4)})
        ('You win.', '{"hand": [3, 4]}')
    """
    if isinstance(observation, str):
        return observation
    return json.dumps(observation, default=_to_json_type, ensure_ascii=False)


def _to_json_type(value: Any) -> Any:  # noqa: ANN401
    """Convert an array, a number of NumPy or a record of pydantic to JSON types; others to text."""
    for name in ("tolist", "model_dump"):
        if callable(method := getattr(value, name, None)):
            return method()
    return str(value)
