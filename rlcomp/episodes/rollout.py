"""Rollout of episodes: turns of a policy and of environments, alternately."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rlcomp.engine.session import SamplingSession, TurnSample, join_turns
from rlcomp.episodes.episode import Episode
from rlcomp.episodes.host import EnvironmentFailure, Host, Start
from rlcomp.errors import DataError, in_one_line
from rlcomp.interfaces.environment import Turn
from rlcomp.interfaces.prompt import NO_OBSERVATION, Dialogue, Observation
from rlcomp.text.token_bytes import encode_continuation, row_bytes
from rlcomp.verify.tool_calls import ends_in_string

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

# An observation is cut to this many characters for each token that it may have.
_CHARACTERS = 16


@dataclass(frozen=True)
class EpisodeLimits:
    """Limits of an episode.

    Attributes:
        turns: maximum number of the policy's turns.
        turn_tokens: maximum number of tokens that the policy samples in a turn.
        observation_tokens: maximum number of tokens of an observation, without its closing text.
        context: maximum number of tokens of a row; None: no limit.
    """

    turns: int
    turn_tokens: int
    observation_tokens: int
    context: int | None


@dataclass(frozen=True)
class EpisodeBranch:
    """Origin of an episode that continues another episode.

    Attributes:
        row: index of the continued episode.
        turn: first turn that the two episodes do not share.
    """

    row: int
    turn: int


class Rollout:
    """Episodes that are rolled out together.

    Sampled tokens are never decoded and encoded again: only observations are encoded, and
    appended.

    Args:
        open_session: opens a session of the policy from the first ids of each episode.
        dialogues: the format of each episode.
        host: host of the environments.
        tokenizer: the policy's tokenizer.
        table: the bytes of each token.
        limits: limits of each episode.
    """

    def __init__(
        self,
        open_session: Callable[[list[list[int]]], SamplingSession],
        dialogues: Sequence[Dialogue],
        host: Host,
        tokenizer: PreTrainedTokenizerBase,
        table: Sequence[bytes],
        limits: EpisodeLimits,
    ) -> None:
        self.open_session = open_session
        self.dialogues = list(dialogues)
        self.session: SamplingSession
        self.host = host
        self.tokenizer = tokenizer
        self.table = table
        self.limits = limits
        self.stops = [text.encode() for text in host.stops]
        self.episodes = [Episode(dialogue.opening(NO_OBSERVATION)) for dialogue in dialogues]
        # Text of the state before each episode's next turn; None if unknown.
        self.anchors: list[str | None] = [None] * len(self.episodes)
        self.branches: list[EpisodeBranch] = []

    def run(self, starts: Sequence[Start], continuations: int = 0) -> list[Episode]:
        """Roll out until every episode is over.

        Args:
            starts: the start of each episode.
            continuations: number of copies of each of these episodes, made before every turn.

        Returns:
            The episodes, then the continuations; continuations of one state are adjacent.
        """
        try:
            alive = self._open(starts)
            for number in range(self.limits.turns):
                if not alive:
                    break
                originals = [row for row in alive if row < len(starts)]
                alive += [self._fork(row) for row in originals for _ in range(continuations)]
                alive = self._turn(alive, last=number + 1 == self.limits.turns)
            self._read_facts()
        finally:
            self.host.close()
        return self.episodes

    def _open(self, starts: Sequence[Start]) -> list[int]:
        """Reset the environments and open the session; return the episodes that continue."""
        alive = self._receive(dict(enumerate(self.host.open(starts))), last=False)
        self.session = self.open_session([episode.ids for episode in self.episodes])
        self.session.close([row for row in range(len(starts)) if row not in alive])
        return alive

    def _read_facts(self) -> None:
        for episode, facts in zip(self.episodes, self.host.facts(), strict=True):
            if isinstance(facts, EnvironmentFailure):
                episode.broken = episode.broken or facts.reason
            else:
                episode.facts = dict(facts)

    def _fork(self, row: int) -> int:
        """Add an episode that continues this one."""
        new, number = self.session.fork(row), self.host.fork(row)
        assert new == number == len(self.episodes), "numbers of a fork differ"
        self.episodes.append(self.episodes[row].fork())
        self.dialogues.append(self.dialogues[row])
        self.anchors.append(self.anchors[row])
        self.branches.append(EpisodeBranch(row, len(self.episodes[row].turns)))
        return new

    def _turn(self, rows: list[int], *, last: bool) -> list[int]:
        """Play one turn of some episodes; return those that continue."""
        limits = [self._turn_limit(row) for row in rows]
        turns = self.generate(self.session, rows, limits)
        actions: dict[int, str] = {}
        for row, turn in zip(rows, turns, strict=True):
            action = self._append_turn(row, turn)
            if action is not None:
                actions[row] = action
        alive = self._receive(self.host.step(actions), last=last)
        for row in alive:
            self._extend(row)
        self.session.close([row for row in rows if row not in alive])
        return alive

    def generate(
        self, session: SamplingSession, rows: Sequence[int], limits: Sequence[int]
    ) -> list[TurnSample]:
        """Sample a turn in some rows; a stop text inside a string of a call does not end it.

        The session stops at every stop text. So this method samples on in such a row, until the
        turn ends or its limit is used.
        """
        turns = session.generate(rows, limits=limits, texts=self.stops)
        open_rows = [n for n, turn in enumerate(turns) if self._is_open(turn, turn)]
        while open_rows:
            # A row without tokens left stays truncated; each other row samples further tokens.
            turns = [
                replace(turn, truncated=True) if n in open_rows else turn
                for n, turn in enumerate(turns)
            ]
            open_rows = [n for n in open_rows if len(turns[n].tokens) < limits[n]]
            remaining = [limits[n] - len(turns[n].tokens) for n in open_rows]
            unfinished = [rows[n] for n in open_rows]
            answers = (
                session.generate(unfinished, limits=remaining, texts=self.stops)
                if open_rows
                else []
            )
            more = dict(zip(open_rows, answers, strict=True))
            turns = [
                join_turns(turn, more[n]) if n in more else turn for n, turn in enumerate(turns)
            ]
            open_rows = [n for n in open_rows if self._is_open(turns[n], more[n])]
        return turns

    def _is_open(self, turn: TurnSample, newest: TurnSample) -> bool:
        """Return whether the newest tokens end with a stop text inside a string of a call."""
        ended = row_bytes(self.table, newest.tokens)
        if turn.truncated or not any(text in ended for text in self.stops):
            return False
        return self._end(row_bytes(self.table, turn.tokens)) is None

    def _append_turn(self, row: int, turn: TurnSample) -> str | None:
        """Append a turn of the policy; return its action, None if it is truncated."""
        episode = self.episodes[row]
        text_bytes = row_bytes(self.table, turn.tokens)
        episode.append_turn(turn, as_text(text_bytes), self.anchors[row])
        episode.truncated = turn.truncated
        self._check_context(row)
        return None if turn.truncated else as_text(self._until_stop(text_bytes))

    def _until_stop(self, text_bytes: bytes) -> bytes:
        """Return the bytes up to the end of the stop text; the last token may have more."""
        return text_bytes[: self._end(text_bytes)]

    def _end(self, text_bytes: bytes) -> int | None:
        """Return the end of the first stop text that is not inside a string of a call."""
        ends = [
            match.end() for text in self.stops for match in re.finditer(re.escape(text), text_bytes)
        ]
        return next((n for n in sorted(ends) if not ends_in_string(as_text(text_bytes[:n]))), None)

    def _receive(self, turns: Mapping[int, Turn | EnvironmentFailure], *, last: bool) -> list[int]:
        """Process the turns of environments; return the episodes that continue."""
        alive = []
        for row, turn in turns.items():
            episode = self.episodes[row]
            if isinstance(turn, EnvironmentFailure):
                episode.broken = turn.reason or "its environment failed"
                continue
            if episode.turns:
                episode.turns[-1].reward = turn.reward
            elif turn.reward:
                episode.broken = f"reset returned reward {turn.reward}, but no action precedes it"
                continue
            if not turn.done and self._continue(row, turn, last=last):
                alive.append(row)
        return alive

    def _continue(self, row: int, turn: Turn, *, last: bool) -> bool:
        """Process an observation; return whether the episode continues.

        ``last``: no turn is left, so the episode is truncated without the observation.
        """
        episode = self.episodes[row]
        try:
            episode.truncated = last or not self._append_observation(row, turn)
        except DataError as error:  # the tokenizer cannot encode the observation
            episode.broken = f"observation: {in_one_line(error)}"
            return False
        self.anchors[row] = turn.anchor
        return not episode.truncated

    def _append_observation(self, row: int, turn: Turn) -> bool:
        """Append an observation if another token fits after it; return whether one does."""
        episode, dialogue = self.episodes[row], self.dialogues[row]
        observed = self._encode_observation(turn)
        if episode.turns:
            ids = [*episode.ids, *dialogue.reply(observed, episode.ids[-1:])]
        else:
            ids = dialogue.opening(observed)
        if self.limits.context is not None and len(ids) >= self.limits.context:
            return False
        if ids != episode.ids:
            episode.set_observation(ids, observed.text)
        return True

    def _encode_observation(self, turn: Turn) -> Observation:
        """Encode an observation, cut to its limit of tokens, and its closing text, never cut."""
        most = self.limits.observation_tokens
        text = turn.observation[: most * _CHARACTERS]
        ids, closing = self._encode_text(text), self._encode_text(turn.closing)
        start = ids[:most]
        if start != ids or text != turn.observation:
            text = as_text(row_bytes(self.table, start))
        return Observation([*start, *closing], text + turn.closing)

    def _extend(self, row: int) -> None:
        """Extend the policy's context by the new tokens of its episode."""
        new = self.episodes[row].ids[len(self.session.contexts[row]) :]
        if new:
            self.session.extend(row, new)
        self._check_context(row)

    def _encode_text(self, text: str) -> list[int]:
        """Return the ids of a text, without special tokens."""
        return encode_continuation(self.tokenizer, self.table, text)

    def _turn_limit(self, row: int) -> int:
        limit, context = self.limits.turn_tokens, self.limits.context
        return limit if context is None else min(limit, context - len(self.episodes[row].ids))

    def _check_context(self, row: int) -> None:
        """Assert the prefix property: the policy's context is the episode, which only grows."""
        assert self.session.contexts[row] == self.episodes[row].ids, "a context was rewritten"


def as_text(text_bytes: bytes) -> str:
    """Decode bytes; U+FFFD replaces bytes that are not UTF-8."""
    return text_bytes.decode("utf-8", "replace")
