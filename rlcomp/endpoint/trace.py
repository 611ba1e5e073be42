"""Trace of an episode: what an outside agent asked and was told, as rows of ids and log-probs."""

from __future__ import annotations

import hashlib
import math
from array import array
from collections.abc import Sequence
from dataclasses import dataclass

from rlcomp.engine.session import Said
from rlcomp.episodes.episode import Episode
from rlcomp.text.marked import MarkedTexts, shown


class Context:
    """What a call asks the policy to go on from.

    Args:
        text: marked (:mod:`rlcomp.text.marked`).
        ids: the same.
        call: the earlier call whose ids they begin with; None: a row of its own.
    """

    def __init__(self, text: str, ids: list[int], call: Recorded | None) -> None:
        self.text, self.ids, self.call = text, ids, call
        self.digest = hashlib.sha256(array("q", ids).tobytes()).hexdigest()


@dataclass
class Recorded:
    """An answer that was given.

    Attributes:
        text: everything up to its end, marked.
        ids: the same.
        row: the row it stands in.
        turn: of that row.
    """

    text: str
    ids: list[int]
    row: int
    turn: int


class Trace:
    """One episode of an outside agent.

    A call goes on in a row where its text begins with that of an earlier answer, the longest one:
    by the ids that were recorded then, with the rest encoded behind them. Any other call begins a
    row, also where another call has gone on from the same answer before: what is repeated of it is
    read and not trained on, so that each sampled token is trained once.

    Args:
        texts: of the policy's tokenizer.

    Attributes:
        rows: each may hold several turns.
        calls: how many were answered.
        posted: rewards that were posted.
        returned: what the agent returned; None: nothing.
        failed: why the episode is invalid; empty where it is not.
    """

    def __init__(self, texts: MarkedTexts) -> None:
        self.texts = texts
        self.rows: list[Episode] = []
        self.calls = 0
        self.posted: list[float] = []
        self.returned: float | None = None
        self.failed = ""
        self.answers: list[Recorded] = []
        self.last: Recorded | None = None
        self.said: list[int] = []  # with the last call
        self._asked: dict[str, int] = {}

    @property
    def reward(self) -> float:
        """What the agent returned, else the sum of what it posted; NaN: nothing."""
        if self.returned is not None:
            return self.returned
        return sum(self.posted) if self.posted else math.nan

    def context(self, text: str, *, leads: bool) -> Context:
        """The ids of a text that the policy shall go on from.

        Args:
            text: marked.
            leads: what a tokenizer puts in front of texts stands in front of it.

        Raises:
            DataError: the tokenizer cannot write it.
        """
        before = [each for each in [*self.answers] if text.startswith(each.text)]
        call = max(before, key=lambda each: len(each.text), default=None)
        if call is None:
            begun = self.texts.begin(text) if leads else self.texts.encode(text)
            return Context(text, begun, None)
        rest = self.texts.encode(text[len(call.text) :], call.text)
        return Context(text, [*call.ids, *rest], call)

    def times(self, digest: str) -> int:
        """How often the same was asked before."""
        self._asked[digest] = self._asked.get(digest, -1) + 1
        return self._asked[digest]

    def record(self, context: Context, answers: Sequence[Said]) -> None:
        """Take the answers to a call, of which each but the first stands in a row of its own."""
        for choice, said in enumerate(answers):
            row = self._row(context) if not choice else self._new(context)
            episode, text = self.rows[row], self.texts.said(said.tokens)
            episode.sampled(said, self.texts.plain(said.tokens), None)
            episode.truncated = said.truncated
            episode.turns[-1].number = self.calls
            recorded = Recorded(context.text + text, episode.ids[:], row, len(episode.turns) - 1)
            self.answers.append(recorded)
            if not choice:
                self.last, self.said = recorded, said.tokens
        self.calls += 1

    def _row(self, context: Context) -> int:
        """The row that a call stands in."""
        call = context.call
        if call is None or call.turn != len(self.rows[call.row].turns) - 1:
            return self._new(context)
        rest = context.text[len(call.text) :]
        if rest:
            self.rows[call.row].observed(context.ids, shown(rest))
        return call.row

    def _new(self, context: Context) -> int:
        self.rows.append(Episode(context.ids[:]))
        return len(self.rows) - 1

    def pay(self, reward: float) -> bool:
        """Add a reward to the last call; whether there is one."""
        if self.last is None:
            return False
        self.rows[self.last.row].turns[self.last.turn].reward += reward
        self.posted.append(reward)
        return True
