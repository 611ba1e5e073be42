"""One episode: its tokens, who wrote them, and what its environment said of each turn."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from torch import Tensor

from rlcomp.engine.session import Said


@dataclass
class TurnOf:
    """A turn of the policy in an episode.

    Attributes:
        start: place of its first token.
        end: behind its last one.
        anchor: the state in which it was decided, where states can be compared.
        reward: what the environment paid for it.
        number: of the turn in its episode, where that has several rows; None: the turns of this row
            count from 0.
    """

    start: int
    end: int
    anchor: str | None
    reward: float = 0.0
    number: int | None = None


@dataclass
class Episode:
    """A row that grows: prompt, then turns of the policy and observations.

    Attributes:
        ids: tokens; only ever appended to, once there is a turn.
        trained: of each, whether the policy sampled it.
        log_probs: of each, nats; 0 where it was not sampled.
        turns: those of the policy, in order.
        kept: the sets that tokens were drawn from, a piece for each turn; None if not recorded.
        texts: what stands behind the prompt, piece by piece.
        truncated: a limit ended it: of a turn, of turns, or of the context.
        broken: why the environment failed; empty where it did not.
        facts: numbers that the environment tells of it.
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
        """Another one that begins alike and goes on by itself."""
        copied = copy.copy(self)
        copied.ids, copied.trained = [*self.ids], [*self.trained]
        copied.log_probs, copied.kept = [*self.log_probs], [*self.kept]
        copied.turns, copied.texts = [replace(turn) for turn in self.turns], [*self.texts]
        return copied

    def sampled(self, said: Said, text: str, anchor: str | None) -> None:
        """Append a turn of the policy."""
        start = len(self.ids)
        self._append(said.tokens, True, said.log_probs)
        self.turns.append(TurnOf(start, len(self.ids), anchor))
        self.kept.append(said.kept)
        self.texts.append(text)

    def observed(self, ids: Sequence[int], text: str) -> None:
        """Take the ids with what the environment says: behind the turns that there are.

        What it says before the first one may stand within the prompt.
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
