"""Matches of several seats; each player has a transcript of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext

from rlcomp.engine.session import TurnSample
from rlcomp.episodes.episode import Episode
from rlcomp.episodes.host import EnvironmentFailure, Host, Start
from rlcomp.episodes.rollout import Rollout, as_text
from rlcomp.interfaces.environment import Turn
from rlcomp.text.token_bytes import row_bytes


class Seat(Rollout):
    """The transcripts of one player, one a match.

    The policy reads the context anew for each turn: a seat may wait for its first turn while others
    move.

    Attributes:
        weights: context that puts the seat's weights in place.
    """

    weights: Callable[[], AbstractContextManager[object]] = nullcontext

    def move(self, matches: Sequence[int]) -> dict[int, str]:
        """Play one turn in some matches; return the actions.

        A turn that met its limit is still an action: the game decides the cost of an illegal one,
        and no player can leave a lost match by writing on.
        """
        limits = [self._room(match) for match in matches]
        with self.weights():
            session = self.open_session([self.episodes[match].ids for match in matches])
            places = list(range(len(matches)))
            turns = self.generate(session, places, limits)
        return {match: self._moved(match, each) for match, each in zip(matches, turns, strict=True)}

    def _moved(self, match: int, turn: TurnSample) -> str:
        self._said(match, turn)
        self.episodes[match].truncated = False
        return as_text(self._until_stop(row_bytes(self.table, turn.tokens)))

    def hears(self, match: int, turn: Turn, *, last: bool) -> bool:
        """Take the observation before its next turn in a match; return whether it can move."""
        return self._goes_on(match, turn, last=last)

    def pay(self, match: int, amount: float) -> None:
        """Add to the reward of its last turn; no-op for a seat that has not moved."""
        if turns := self.episodes[match].turns:
            turns[-1].reward += amount

    def _check(self, row: int) -> None:
        """No-op: the session is opened anew from the transcript."""


class Matches:
    """Matches that are played together.

    ``Turn.seat`` is the seat that moves next and reads ``observation``; ``reward`` goes to the seat
    that has moved, ``payoffs`` has a number for each seat.

    Args:
        seats: the players in order.
        host: host of the environments, one a match.
        turns: most turns of a match, of all seats together.
    """

    def __init__(self, seats: Sequence[Seat], host: Host, turns: int) -> None:
        self.seats = seats
        self.host = host
        self.turns = turns

    def run(self, starts: Sequence[Start]) -> list[list[Episode]]:
        """Play until every match is over.

        Returns:
            The transcripts of each seat, one a match.
        """
        try:
            movers = self._heard(dict(enumerate(self.host.open(starts))), {}, last=False)
            for number in range(self.turns):
                if not movers:
                    break
                actions = self._moved(movers)
                movers = self._heard(self.host.step(actions), movers, last=number + 1 == self.turns)
            for match, facts in enumerate(self.host.facts()):
                self._tell(match, facts)
        finally:
            self.host.close()
        return [seat.episodes for seat in self.seats]

    def _moved(self, movers: Mapping[int, int]) -> dict[int, str]:
        actions: dict[int, str] = {}
        for number, seat in enumerate(self.seats):
            if matches := [match for match, mover in movers.items() if mover == number]:
                actions |= seat.move(matches)
        return dict(sorted(actions.items()))

    def _heard(
        self,
        turns: Mapping[int, Turn | EnvironmentFailure],
        movers: Mapping[int, int],
        *,
        last: bool,
    ) -> dict[int, int]:
        """Take the turns of environments; return the next mover of each match that goes on."""
        going: dict[int, int] = {}
        for match, turn in turns.items():
            if why := self._fault(match, turn, movers):
                self._break(match, why)
            elif isinstance(turn, Turn):
                self._pay(match, turn, movers)
                if turn.done:
                    continue
                if self.seats[turn.seat].hears(match, turn, last=last):
                    going[match] = turn.seat
                else:
                    self._cut(match, turn.seat)
        return going

    def _cut(self, match: int, seat: int) -> None:
        """End a match for all seats: the transcript of one met a limit or failed."""
        ended = self.seats[seat].episodes[match]
        if ended.broken:
            self._break(match, ended.broken)
            return
        for each in self.seats:
            each.episodes[match].truncated = True

    def _fault(self, match: int, turn: Turn | EnvironmentFailure, movers: Mapping[int, int]) -> str:
        if isinstance(turn, EnvironmentFailure):
            return turn.reason or "its environment failed"
        seats = len(self.seats)
        if not 0 <= turn.seat < seats:
            return f"seat is {turn.seat}: the players have seats 0 to {seats - 1}"
        if turn.payoffs and len(turn.payoffs) != seats:
            return f"payoffs has {len(turn.payoffs)} numbers: must be one for each of {seats} seats"
        if match not in movers and (turn.reward or any(turn.payoffs)):
            return "reset returned a reward, which no turn has earned"
        return ""

    def _pay(self, match: int, turn: Turn, movers: Mapping[int, int]) -> None:
        if match in movers:
            self.seats[movers[match]].pay(match, turn.reward)
        for seat, amount in zip(self.seats, turn.payoffs, strict=False):
            seat.pay(match, amount)

    def _tell(self, match: int, facts: Mapping[str, float] | EnvironmentFailure) -> None:
        if isinstance(facts, EnvironmentFailure):
            self._break(match, facts.reason)
            return
        for seat in self.seats:
            seat.episodes[match].facts = dict(facts)

    def _break(self, match: int, why: str) -> None:
        """Mark all transcripts of a match as broken."""
        for seat in self.seats:
            seat.episodes[match].broken = seat.episodes[match].broken or why
