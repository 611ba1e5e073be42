"""Trace of an episode: calls and answers of an outside agent, as rows of ids and log-probs."""

from __future__ import annotations

import hashlib
import math
from array import array
from collections.abc import Sequence
from dataclasses import dataclass

from rlcomp.engine.session import TurnSample
from rlcomp.episodes.episode import Episode
from rlcomp.text.special_tokens import MarkedTexts, shown


class Context:
    """Context of a call, which the policy continues.

    Args:
        text: the text, with marked special tokens (:mod:`rlcomp.text.special_tokens`).
        ids: token ids of the text.
        call: the earlier answer that the text continues; None: the text begins a row.
    """

    def __init__(self, text: str, ids: list[int], call: RecordedAnswer | None) -> None:
        self.text, self.ids, self.call = text, ids, call
        self.digest = hashlib.sha256(array("q", ids).tobytes()).hexdigest()


@dataclass
class RecordedAnswer:
    """A recorded answer.

    Attributes:
        text: text of the row up to the end of the answer, with marked special tokens.
        ids: token ids of the text.
        row: index of the row.
        turn: index of the answer's turn in the row.
    """

    text: str
    ids: list[int]
    row: int
    turn: int


class Trace:
    """One episode of an outside agent.

    A call continues a row if its text begins with the text of an earlier answer, the longest one:
    its ids are the recorded ones, and only the rest is encoded. Any other call begins a row. So
    does a call that continues an answer which another call has continued before: the repeated part
    is read and not trained on, so that each sampled token is trained once.

    Args:
        texts: encoder and decoder of the policy's tokenizer.

    Attributes:
        rows: the rows; a row may have several turns.
        calls: number of answered calls.
        posted: rewards that the agent has posted.
        returned: the agent's return value; None if it returned nothing.
        failed: why the episode is invalid; empty if it is valid.
    """

    def __init__(self, texts: MarkedTexts) -> None:
        self.texts = texts
        self.rows: list[Episode] = []
        self.calls = 0
        self.posted: list[float] = []
        self.returned: float | None = None
        self.failed = ""
        self.answers: list[RecordedAnswer] = []
        self.last: RecordedAnswer | None = None
        self.last_tokens: list[int] = []  # tokens of the last call's answer
        self._repeats: dict[str, int] = {}

    @property
    def reward(self) -> float:
        """Return the agent's value, else the sum of posted rewards; NaN for neither."""
        if self.returned is not None:
            return self.returned
        return sum(self.posted) if self.posted else math.nan

    def context(self, text: str, *, leads: bool) -> Context:
        """Return the context of a text that the policy continues.

        Args:
            text: marked.
            leads: whether the tokenizer's leading tokens come first.

        Raises:
            DataError: the tokenizer cannot write it.
        """
        before = [each for each in [*self.answers] if text.startswith(each.text)]
        call = max(before, key=lambda each: len(each.text), default=None)
        if call is None:
            ids = self.texts.begin(text) if leads else self.texts.encode(text)
            return Context(text, ids, None)
        rest = self.texts.encode(text[len(call.text) :], call.text)
        return Context(text, [*call.ids, *rest], call)

    def times(self, digest: str) -> int:
        """Count how often the same call was made before."""
        self._repeats[digest] = self._repeats.get(digest, -1) + 1
        return self._repeats[digest]

    def record(self, context: Context, answers: Sequence[TurnSample]) -> None:
        """Record the answers to a call; each except the first gets a row of its own."""
        for choice, turn in enumerate(answers):
            row = self._row(context) if not choice else self._new(context)
            episode, text = self.rows[row], self.texts.said(turn.tokens)
            episode.append_turn(turn, self.texts.plain(turn.tokens), None)
            episode.truncated = turn.truncated
            episode.turns[-1].number = self.calls
            recorded = RecordedAnswer(
                context.text + text, episode.ids[:], row, len(episode.turns) - 1
            )
            self.answers.append(recorded)
            if not choice:
                self.last, self.last_tokens = recorded, turn.tokens
        self.calls += 1

    def _row(self, context: Context) -> int:
        """Return the index of a call's row."""
        call = context.call
        if call is None or call.turn != len(self.rows[call.row].turns) - 1:
            return self._new(context)
        rest = context.text[len(call.text) :]
        if rest:
            self.rows[call.row].set_observation(context.ids, shown(rest))
        return call.row

    def _new(self, context: Context) -> int:
        self.rows.append(Episode(context.ids[:]))
        return len(self.rows) - 1

    def pay(self, reward: float) -> bool:
        """Add a reward to the last call; return whether there is one."""
        if self.last is None:
            return False
        self.rows[self.last.row].turns[self.last.turn].reward += reward
        self.posted.append(reward)
        return True
