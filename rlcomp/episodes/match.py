"""Matches between seats: each player has a transcript and a row of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial

import torch
from tensordict import TensorDict

from rlcomp.arguments import PositiveInt, Unbuilt
from rlcomp.batch import decode_texts, keep_prompt
from rlcomp.engine.decoding import Decoding
from rlcomp.episodes.episode import Episode, episode_rows
from rlcomp.episodes.host import EnvironmentFailure, Host, Hosts, Start
from rlcomp.episodes.player import Player, prompts_of_rows, starts
from rlcomp.episodes.rollout import Rollout, as_text
from rlcomp.errors import ConfigError
from rlcomp.interfaces.environment import Environment, Turn
from rlcomp.interfaces.policy import SupportsTurns
from rlcomp.interfaces.prompt import PromptFormat
from rlcomp.text.token_bytes import row_bytes


class SeatRollout(Rollout):
    """The transcripts of one player, one for each match.

    Each turn has a new session, because a seat may wait while others move.

    Attributes:
        weights: function that returns a context manager, which loads the weights of the seat.
    """

    weights: Callable[[], AbstractContextManager[object]] = nullcontext

    def move(self, matches: Sequence[int]) -> dict[int, str]:
        """Play one turn in some matches; return the actions.

        A truncated turn is an action, too: the game decides the cost of an illegal one, and no
        player can leave a lost match by a long turn.
        """
        limits = [self._turn_limit(match) for match in matches]
        with self.weights():
            session = self.open_session([self.episodes[match].ids for match in matches])
            turns = self.generate(session, range(len(matches)), limits)
        actions: dict[int, str] = {}
        for match, turn in zip(matches, turns, strict=True):
            self._append_turn(match, turn)
            self.episodes[match].truncated = False
            actions[match] = as_text(self._until_stop(row_bytes(self.table, turn.tokens)))
        return actions

    def receive(self, match: int, turn: Turn, *, last: bool) -> bool:
        """Append the observation before the next turn; return whether the seat can move."""
        return self._continue(match, turn, last=last)

    def pay(self, match: int, amount: float) -> None:
        """Add to the reward of the last turn; no-op without a turn."""
        if turns := self.episodes[match].turns:
            turns[-1].reward += amount

    def _check_context(self, row: int) -> None:
        """No-op: the session is opened anew from the transcript."""


class Matches:
    """Matches that are played together.

    The seat ``Turn.seat`` moves next and reads ``observation``. The seat that moved last gets
    ``reward``, and each seat gets its number of ``payoffs``.

    Args:
        seats: the players in order.
        host: host of the environments, one for each match.
        turns: maximum number of turns of a match, of all seats together.
    """

    def __init__(self, seats: Sequence[SeatRollout], host: Host, turns: int) -> None:
        self.seats = seats
        self.host = host
        self.turns = turns

    def run(self, starts: Sequence[Start]) -> list[list[Episode]]:
        """Play until every match is over; return each seat's transcripts, one for each match."""
        try:
            movers = self._receive(dict(enumerate(self.host.open(starts))), {}, last=False)
            for number in range(self.turns):
                if not movers:
                    break
                turns = self.host.step(self._move(movers))
                movers = self._receive(turns, movers, last=number + 1 == self.turns)
            for match, facts in enumerate(self.host.facts()):
                self._set_facts(match, facts)
        finally:
            self.host.close()
        return [seat.episodes for seat in self.seats]

    def _move(self, movers: Mapping[int, int]) -> dict[int, str]:
        """Play one turn of each match's mover; return the actions."""
        actions: dict[int, str] = {}
        for number, seat in enumerate(self.seats):
            if matches := [match for match, mover in movers.items() if mover == number]:
                actions |= seat.move(matches)
        return dict(sorted(actions.items()))

    def _receive(
        self,
        turns: Mapping[int, Turn | EnvironmentFailure],
        movers: Mapping[int, int],
        *,
        last: bool,
    ) -> dict[int, int]:
        """Process the turns of environments; return the next mover of each match."""
        next_movers: dict[int, int] = {}
        for match, turn in turns.items():
            if reason := self._fault(match, turn, movers):
                self._mark_broken(match, reason)
            elif isinstance(turn, Turn):
                self._pay(match, turn, movers)
                if turn.done:
                    continue
                if self.seats[turn.seat].receive(match, turn, last=last):
                    next_movers[match] = turn.seat
                else:
                    self._end(match, self.seats[turn.seat].episodes[match])
        return next_movers

    def _end(self, match: int, transcript: Episode) -> None:
        """End a match for all seats, because one transcript is truncated or broken."""
        if transcript.broken:
            self._mark_broken(match, transcript.broken)
            return
        for seat in self.seats:
            seat.episodes[match].truncated = True

    def _fault(self, match: int, turn: Turn | EnvironmentFailure, movers: Mapping[int, int]) -> str:
        # Returns the fault of the environment's turn, in words; '' if there is none.
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

    def _set_facts(self, match: int, facts: Mapping[str, float] | EnvironmentFailure) -> None:
        if isinstance(facts, EnvironmentFailure):
            self._mark_broken(match, facts.reason)
            return
        for seat in self.seats:
            seat.episodes[match].facts = dict(facts)

    def _mark_broken(self, match: int, reason: str) -> None:
        """Mark all transcripts of a match as broken."""
        for seat in self.seats:
            seat.episodes[match].broken = seat.episodes[match].broken or reason


class MatchPlayer(Player):
    """Player of matches between seats (self-play); each seat has a row of its own.

    The environment names the seat that moves next (``Turn.seat``), gives that seat an observation,
    and rewards each seat (``Turn.payoffs``). A group is the rows of one seat and one prompt, so
    that every baseline is role-wise. Other arguments: see :class:`rlcomp.episodes.player.Player`.

    Args:
        policies: the policy of each seat, in order; the same policy may play several seats.
        max_turns: maximum number of turns of a match, of all seats together.

    Raises:
        ConfigError: there are fewer than two seats, the policies have different tokenizers, or the
            player refuses an argument.
    """

    def __init__(
        self,
        *,
        policies: Sequence[SupportsTurns],
        environment: Callable[..., Environment] | Unbuilt,
        hosts: Hosts | None = None,
        max_turns: PositiveInt = 8,
        max_new_tokens: PositiveInt,
        observation_tokens: PositiveInt = 256,
        prompt: PromptFormat | None = None,
    ) -> None:
        if len(policies) < 2:
            raise ConfigError(
                f"player.policies has {len(policies)} entries: a game needs one for each of its "
                "seats, at least two; policies=['${policy}', '${policy}'] plays both by one policy"
            )
        super().__init__(
            policy=policies[0],
            environment=environment,
            hosts=hosts,
            max_turns=max_turns,
            max_new_tokens=max_new_tokens,
            observation_tokens=observation_tokens,
            prompt=prompt,
        )
        vocabulary = self.policy.tokenizer.get_vocab()
        for number, policy in enumerate(policies):
            if policy.tokenizer.get_vocab() != vocabulary:
                raise ConfigError(
                    f"player.policies: seat {number} has another tokenizer than seat 0: the seats "
                    "of a game need the same"
                )
            self.prompt.check_policy(policy)
        self.policies = list(policies)

    def play(
        self,
        batch: TensorDict,
        *,
        group_size: int,
        decoding: Decoding | None,
        generator: torch.Generator,
        seed: int,
        weights: Sequence[Callable[[], AbstractContextManager[object]]] = (),
    ) -> TensorDict:
        """Play ``group_size`` matches of each prompt.

        Args:
            batch: see :meth:`rlcomp.episodes.player.Player.play`.
            group_size: matches of each prompt.
            decoding: decoding settings; None: each policy's own.
            generator: draws the policies' tokens.
            seed: determines the seeds of the environments.
            weights: for each seat a function that returns a context manager, which loads the seat's
                weights (:meth:`rlcomp.model.weight_snapshot.WeightSnapshot.in_place`). Empty: each
                policy's own weights.

        Returns:
            Rows of the seats that moved or whose match failed, with ``seat`` and ``match_id``
            ``[B]``: for each prompt the rows of seat 0, then of seat 1, and so on.
        """
        prompt_of_row = prompts_of_rows(batch, group_size)
        dialogues = self._dialogues(batch)
        seats = []
        for number, policy in enumerate(self.policies):
            seat = SeatRollout(
                partial(policy.session, decoding=decoding, generator=generator),
                [dialogues[n] for n in prompt_of_row],
                self.host,
                policy.tokenizer,
                self.table,
                self.limits,
            )
            if weights:
                seat.weights = weights[number]
            seats.append(seat)
        matches = Matches(seats, self.host, self.limits.turns)
        return self._seat_rows(matches.run(starts(batch, prompt_of_row, seed)), batch, group_size)

    def _seat_rows(
        self, seats: list[list[Episode]], batch: TensorDict, group_size: int
    ) -> TensorDict:
        """Return the rows, grouped by prompt and seat."""
        indices = [
            (prompt, number, prompt * group_size + index)
            for prompt in range(len(batch))
            for number in range(len(seats))
            for index in range(group_size)
        ]
        prompt_of_row, seat, match = torch.tensor(indices, device=self.policy.device).T
        rows = episode_rows(
            [seats[number][index] for _, number, index in indices],
            self.policy.tokenizer,
            group_size=group_size,
            version=self.policy.version,
            device=self.policy.device,
        )
        versions = torch.tensor([policy.version for policy in self.policies], device=seat.device)
        rows["policy_version"] = rows["response_mask"] * versions[seat][:, None]
        rows["seat"], rows["match_id"] = seat, match
        rows = keep_prompt(rows, batch, prompt_of_row)
        moved = rows["response_mask"].any(1)
        failed = torch.tensor(
            [bool(text) for text in decode_texts(rows["episode_error"])], device=moved.device
        )
        return rows[moved | failed]
