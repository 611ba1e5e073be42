"""Episodes and their descriptions."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from torch import Tensor

from rlcomp.arguments import Unbuilt
from rlcomp.engine.session import TurnSample

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


@dataclass
class TurnOf:
    """A turn of the policy in an episode.

    Attributes:
        start: index of its first token.
        end: index after its last token.
        anchor: the state before the turn, if states can be compared.
        reward: the environment's reward for it.
        number: its number in an episode with several rows; None: the turns of this row are
            counted from 0.
    """

    start: int
    end: int
    anchor: str | None
    reward: float = 0.0
    number: int | None = None


@dataclass
class Episode:
    """A growing row: the prompt, then turns of the policy and observations.

    Attributes:
        ids: tokens; after the first turn they are only appended to.
        trained: whether the policy sampled each token.
        log_probs: the log-prob of each token, nats; 0 if it was not sampled.
        turns: turns of the policy, in order.
        kept: for each turn the sets that its tokens were drawn from; None if not recorded.
        texts: the texts after the prompt, piece by piece.
        truncated: whether a limit ended it: of a turn, of turns, or of the context.
        broken: why the environment failed; '' if it did not.
        facts: numbers of the environment about the episode.
    """

    ids: list[int]
    trained: list[bool] = field(default_factory=list)
    log_probs: list[float] = field(default_factory=list)
    turns: list[TurnOf] = field(default_factory=list)
    kept: list[Tensor | None] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    truncated: bool = False
    broken: str = ""
    facts: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.trained = [False] * len(self.ids)
        self.log_probs = [0.0] * len(self.ids)

    def fork(self) -> Episode:
        """Return an independent copy to continue from."""
        other = copy.copy(self)
        other.ids, other.trained = [*self.ids], [*self.trained]
        other.log_probs, other.kept = [*self.log_probs], [*self.kept]
        other.turns, other.texts = [replace(turn) for turn in self.turns], [*self.texts]
        return other

    def sampled(self, said: TurnSample, text: str, anchor: str | None) -> None:
        """Append a turn of the policy."""
        start = len(self.ids)
        self._append(said.tokens, True, said.log_probs)
        self.turns.append(TurnOf(start, len(self.ids), anchor))
        self.kept.append(said.sampling_mask)
        self.texts.append(text)

    def observed(self, ids: Sequence[int], text: str) -> None:
        """Set the ids with an observation after the present turns.

        An observation before the first turn may stand inside the prompt.
        """
        assert not self.turns or self.ids == ids[: len(self.ids)], "a row was rewritten"
        if not self.turns:
            self.ids, self.trained, self.log_probs = [], [], []
        new = ids[len(self.ids) :]
        self._append(new, False, [0.0] * len(new))
        self.texts.append(text)

    def _append(self, tokens: Sequence[int], trained: bool, log_probs: Sequence[float]) -> None:
        self.ids += tokens
        self.trained += [trained] * len(tokens)
        self.log_probs += log_probs
