"""Trace of an outside agent's episode: calls and answers as rows of ids and log-probs."""

from __future__ import annotations

import hashlib
import math
from array import array
from collections.abc import Sequence
from dataclasses import dataclass

from rlcomp.engine.session import TurnSample
from rlcomp.episodes.episode import Episode
from rlcomp.text.special_tokens import MarkedTextCodec, remove_marks


class Context:
    """Context of a call: the tokens that the policy continues.

    Args:
        text: the text, with marked special tokens (:mod:`rlcomp.text.special_tokens`).
        ids: token ids of the text.
        answer: the earlier answer that the text continues; None: the text begins a row.
    """

    def __init__(self, text: str, ids: list[int], answer: RecordedAnswer | None) -> None:
        self.text, self.ids, self.answer = text, ids, answer
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

    A call continues a row if its text begins with the text of an earlier answer; of several such
    answers it continues the longest one. The recorded ids are reused, and only the rest is encoded.
    Any other call begins a row. So does a second call that continues the same answer: its context
    is not trained on, so that each sampled token is trained once.

    Args:
        texts: encoder and decoder of the policy's tokenizer.

    Attributes:
        rows: the rows; a row may have several turns.
        calls: number of answered calls.
        posted: rewards that the agent posted.
        returned: the agent's return value, or None.
        failed: reason why the episode is invalid; empty if it is valid.
        answers: all recorded answers.
        last: the first answer to the last call; it gets posted rewards.
        last_tokens: the sampled tokens of this answer.
    """

    def __init__(self, texts: MarkedTextCodec) -> None:
        self.texts = texts
        self.rows: list[Episode] = []
        self.calls = 0
        self.posted: list[float] = []
        self.returned: float | None = None
        self.failed = ""
        self.answers: list[RecordedAnswer] = []
        self.last: RecordedAnswer | None = None
        self.last_tokens: list[int] = []
        self._repeats: dict[str, int] = {}

    @property
    def reward(self) -> float:
        """Return the agent's return value, else the sum of posted rewards, else NaN."""
        if self.returned is not None:
            return self.returned
        return sum(self.posted) if self.posted else math.nan

    def context(self, text: str, *, leads: bool) -> Context:
        """Return the context of a text that the policy continues.

        Args:
            text: the text, with marked special tokens.
            leads: whether a row begins with the tokenizer's leading tokens.

        Raises:
            DataError: the tokenizer cannot encode the text.
        """
        answers = [*self.answers]  # a copy: another thread may append to the list
        prefixes = [each for each in answers if text.startswith(each.text)]
        answer = max(prefixes, key=lambda each: len(each.text), default=None)
        if answer is None:
            ids = self.texts.encode_first(text) if leads else self.texts.encode(text)
            return Context(text, ids, None)
        new_ids = self.texts.encode(text[len(answer.text) :], answer.text)
        return Context(text, [*answer.ids, *new_ids], answer)

    def count_repeats(self, digest: str) -> int:
        """Count a call, and return the number of equal calls before it."""
        self._repeats[digest] = self._repeats.get(digest, -1) + 1
        return self._repeats[digest]

    def record(self, context: Context, answers: Sequence[TurnSample]) -> None:
        """Record the answers to a call; each except the first begins a row."""
        for choice, turn in enumerate(answers):
            row = self._row(context) if not choice else self._new_row(context)
            episode, text = self.rows[row], self.texts.decode(turn.tokens)
            episode.append_turn(turn, self.texts.decode_plain(turn.tokens), None)
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
        """Return the index of a call's row, with the new observation at its end."""
        answer = context.answer
        if answer is None or answer.turn != len(self.rows[answer.row].turns) - 1:
            return self._new_row(context)
        observation = context.text[len(answer.text) :]
        if observation:
            self.rows[answer.row].set_observation(context.ids, remove_marks(observation))
        return answer.row

    def _new_row(self, context: Context) -> int:
        self.rows.append(Episode(context.ids[:]))
        return len(self.rows) - 1

    def add_reward(self, reward: float) -> bool:
        """Add a reward to the last call; return whether there is one."""
        if self.last is None:
            return False
        self.rows[self.last.row].turns[self.last.turn].reward += reward
        self.posted.append(reward)
        return True
