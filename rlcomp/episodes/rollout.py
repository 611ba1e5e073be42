"""Rollout of episodes: a session of the policy and a host of environments, turn by turn."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rlcomp.engine.session import Said, Session, joined
from rlcomp.episodes.episode import Episode
from rlcomp.episodes.host import Broken, Host, Start
from rlcomp.errors import DataError, in_one_line
from rlcomp.interfaces.environment import Turn
from rlcomp.interfaces.prompt import SILENT, Dialogue, Observed
from rlcomp.text.continuation import encode_continuation
from rlcomp.text.token_bytes import row_bytes
from rlcomp.verify.tool_calls import ends_in_text

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

# Characters of an observation that are looked at for each token that it may have.
_CHARACTERS = 16


@dataclass(frozen=True)
class Limits:
    """Limits of an episode.

    Attributes:
        turns: of the policy.
        turn_tokens: that the policy samples in one.
        observation_tokens: of an observation, its closing text aside.
        context: tokens of a row; None without a limit.
    """

    turns: int
    turn_tokens: int
    observation_tokens: int
    context: int | None


@dataclass(frozen=True)
class Branch:
    """Where an episode goes on by itself from another one.

    Attributes:
        row: the number of that other one.
        turn: the first turn that is its own.
    """

    row: int
    turn: int


class Rollout:
    """Episodes that are rolled out together.

    Tokens that the policy sampled are never decoded and encoded again: only what an environment
    says is encoded, and appended.

    Args:
        open_session: of the policy, from the ids that each episode begins with.
        dialogues: how each episode is written.
        host: of the environments.
        tokenizer: the policy's.
        table: the bytes of each token.
        limits: of each episode.
    """

    def __init__(
        self,
        open_session: Callable[[list[list[int]]], Session],
        dialogues: Sequence[Dialogue],
        host: Host,
        tokenizer: PreTrainedTokenizerBase,
        table: Sequence[bytes],
        limits: Limits,
    ) -> None:
        self.open_session = open_session
        self.dialogues = list(dialogues)
        self.session: Session
        self.host = host
        self.tokenizer = tokenizer
        self.table = table
        self.limits = limits
        self.stops = [text.encode() for text in host.stops]
        self.episodes = [Episode(dialogue.opening(SILENT)) for dialogue in dialogues]
        # In which state the next turn of each is decided.
        self.anchors: list[str | None] = [None] * len(self.episodes)
        self.branches: list[Branch] = []

    def run(self, starts: Sequence[Start], continuations: int = 0) -> list[Episode]:
        """Roll out until every episode is over.

        Args:
            starts: of each.
            continuations: how many more episodes go on from where each of these takes a turn.

        Returns:
            The episodes, then the continuations: those from one place stand side by side.
        """
        try:
            alive = self._open(starts)
            for number in range(self.limits.turns):
                if not alive:
                    break
                first = [row for row in alive if row < len(starts)]
                alive += [self._fork(row) for row in first for _ in range(continuations)]
                alive = self._turn(alive, last=number + 1 == self.limits.turns)
            self._take_facts()
        finally:
            self.host.close()
        return self.episodes

    def _open(self, starts: Sequence[Start]) -> list[int]:
        """Reset the environments and open the session; which episodes have begun."""
        opened = dict(enumerate(self.host.open(starts)))
        alive = self._heard(opened, last=False)
        self.session = self.open_session([episode.ids for episode in self.episodes])
        self.session.close([row for row in opened if row not in alive])
        return alive

    def _take_facts(self) -> None:
        for episode, facts in zip(self.episodes, self.host.facts(), strict=True):
            if isinstance(facts, Broken):
                episode.broken = episode.broken or facts.why
            else:
                episode.facts = dict(facts)

    def _fork(self, row: int) -> int:
        """Another episode from where this one is."""
        new, number = self.session.fork(row), self.host.fork(row)
        assert new == number == len(self.episodes), "numbers of a fork differ"
        self.episodes.append(self.episodes[row].fork())
        self.dialogues.append(self.dialogues[row])
        self.anchors.append(self.anchors[row])
        self.branches.append(Branch(row, len(self.episodes[row].turns)))
        return new

    def _turn(self, rows: list[int], *, last: bool) -> list[int]:
        """One turn of some episodes; which of them go on."""
        limits = [self._room(row) for row in rows]
        said = self.generate(self.session, rows, limits)
        actions: dict[int, str] = {}
        for row, turn in zip(rows, said, strict=True):
            action = self._said(row, turn)
            if action is not None:
                actions[row] = action
        alive = self._heard(self.host.step(actions), last=last)
        for row in alive:
            self._read(row)
        self.session.close([row for row in rows if row not in alive])
        return alive

    def generate(self, session: Session, rows: Sequence[int], limits: Sequence[int]) -> list[Said]:
        """Sample a turn in some rows, which no stop text within a text of a call ends."""
        said = session.generate(rows, limits=limits, texts=self.stops)
        going = [n for n, turn in enumerate(said) if self._is_open(turn, turn)]
        while going:
            said = [
                replace(turn, truncated=True) if n in going else turn for n, turn in enumerate(said)
            ]
            going = [n for n in going if len(said[n].tokens) < limits[n]]
            left = [limits[n] - len(said[n].tokens) for n in going]
            some = [rows[n] for n in going]
            found = session.generate(some, limits=left, texts=self.stops) if going else []
            more = dict(zip(going, found, strict=True))
            said = [joined(turn, more[n]) if n in more else turn for n, turn in enumerate(said)]
            going = [n for n in going if self._is_open(said[n], more[n])]
        return said

    def _is_open(self, turn: Said, newest: Said) -> bool:
        """Whether a stop text that does not count has ended a turn's newest tokens."""
        ended = row_bytes(self.table, newest.tokens)
        if turn.truncated or not any(text in ended for text in self.stops):
            return False
        return self._end(row_bytes(self.table, turn.tokens)) is None

    def _said(self, row: int, said: Said) -> str | None:
        """Take a turn of the policy; the action in it, None where it was cut short."""
        episode = self.episodes[row]
        written = row_bytes(self.table, said.tokens)
        episode.sampled(said, as_text(written), self.anchors[row])
        episode.truncated = said.truncated
        self._check(row)
        return None if said.truncated else as_text(self._until_stop(written))

    def _until_stop(self, written: bytes) -> bytes:
        """What was written up to the stop text, which a token may run past."""
        return written[: self._end(written)]

    def _end(self, written: bytes) -> int | None:
        """Where the first stop text ends that stands in no text of a call."""
        found = [
            match.end() for text in self.stops for match in re.finditer(re.escape(text), written)
        ]
        return next((n for n in sorted(found) if not ends_in_text(as_text(written[:n]))), None)

    def _heard(self, turns: Mapping[int, Turn | Broken], *, last: bool) -> list[int]:
        """Take what environments said; which episodes go on."""
        alive = []
        for row, turn in turns.items():
            episode = self.episodes[row]
            if isinstance(turn, Broken):
                episode.broken = turn.why or "its environment failed"
                continue
            if episode.turns:
                episode.turns[-1].reward = turn.reward
            elif turn.reward:
                episode.broken = f"reset returned reward {turn.reward}, which no turn has earned"
                continue
            if not turn.done and self._goes_on(row, turn, last=last):
                alive.append(row)
        return alive

    def _goes_on(self, row: int, turn: Turn, *, last: bool) -> bool:
        """Take an observation; whether the episode can go on behind it."""
        episode = self.episodes[row]
        try:
            episode.truncated = last or not self._observe(row, turn)
        except DataError as error:  # the tokenizer cannot write it
            episode.broken = f"observation: {in_one_line(error)}"
            return False
        self.anchors[row] = turn.anchor
        return not episode.truncated

    def _observe(self, row: int, turn: Turn) -> bool:
        """Take an observation into its episode; whether it leaves room for another token."""
        episode, dialogue = self.episodes[row], self.dialogues[row]
        observed = self._observed(turn)
        if episode.turns:
            ids = [*episode.ids, *dialogue.reply(observed, episode.ids[-1:])]
        else:
            ids = dialogue.opening(observed)
        if self.limits.context is not None and len(ids) >= self.limits.context:
            return False
        if ids != episode.ids:
            episode.observed(ids, observed.text)
        return True

    def _observed(self, turn: Turn) -> Observed:
        """An observation, cut at a token."""
        most = self.limits.observation_tokens
        told = turn.observation[: most * _CHARACTERS]
        ids, closing = self._plain(told), self._plain(turn.closing)
        kept = ids[:most]
        if kept != ids or told != turn.observation:
            told = as_text(row_bytes(self.table, kept))
        return Observed([*kept, *closing], told + turn.closing)

    def _read(self, row: int) -> None:
        """Read to the policy what its episode has more than it knows."""
        new = self.episodes[row].ids[len(self.session.contexts[row]) :]
        if new:
            self.session.extend(row, new)
        self._check(row)

    def _plain(self, text: str) -> list[int]:
        """The ids of a text, in which nothing spells a special token."""
        return encode_continuation(self.tokenizer, self.table, text)

    def _room(self, row: int) -> int:
        most, room = self.limits.turn_tokens, self.limits.context
        return most if room is None else min(most, room - len(self.episodes[row].ids))

    def _check(self, row: int) -> None:
        """The prefix property: what the policy has read and said only grows."""
        assert self.session.contexts[row] == self.episodes[row].ids, "a context was rewritten"


def as_text(written: bytes) -> str:
    """A turn as text; bytes that are no character are marked."""
    return written.decode("utf-8", "replace")
