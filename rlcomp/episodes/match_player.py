"""Player of matches between the seats of a game, with one policy or several."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial

import torch
from tensordict import TensorDict

from rlcomp.arguments import PositiveInt, Unbuilt
from rlcomp.batch import decode_texts, keep_prompt
from rlcomp.engine.decoding import Decoding
from rlcomp.episodes.episode import Episode
from rlcomp.episodes.host import Hosts
from rlcomp.episodes.match import Matches, Seat
from rlcomp.episodes.player import Player, owners, starts
from rlcomp.episodes.rows import episode_rows
from rlcomp.errors import ConfigError
from rlcomp.interfaces.environment import Environment
from rlcomp.interfaces.policy import SupportsTurns
from rlcomp.interfaces.prompt import PromptFormat


class SeatedPlayer(Player):
    """Player of matches between seats (self-play); each seat has a row of its own.

    The environment names the seat that moves next (``Turn.seat``), gives that seat an observation,
    and rewards each seat (``Turn.payoffs``). A group is the rows of one seat and one prompt, so
    that every baseline is role-wise.

    Args:
        policies: the policy of each seat, in order; the same policy may play several seats.
        environment: see :class:`rlcomp.episodes.player.Player`, also for the other arguments.
        hosts: owns the environments; they are in this process if not given.
        max_turns: most turns of a match, of all seats together.
        max_new_tokens: longest turn, in tokens.
        observation_tokens: longest observation; a longer one is cut, its closing text kept.
        prompt: encodes prompts as tokens; plain text if not given.

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
        words = self.policy.tokenizer.get_vocab()
        for number, policy in enumerate(policies):
            if policy.tokenizer.get_vocab() != words:
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
            batch: see the player, also for the next four arguments.
            group_size: matches of each prompt.
            decoding: the distribution to draw from; each policy's own if None.
            generator: draws the policies' tokens.
            seed: fixes the seeds of the environments.
            weights: for each seat a context with the weights it moves with
                (:meth:`rlcomp.model.weight_snapshot.WeightSnapshot.in_place`); its policy's own if
                empty.

        Returns:
            Rows of the seats that moved, with ``seat`` and ``match_id`` ``[B]``: for each prompt
            the rows of seat 0, then those of seat 1, and so on.
        """
        owner = owners(batch, group_size)
        dialogues = self._dialogues(batch)
        seats = []
        for number, policy in enumerate(self.policies):
            seat = Seat(
                partial(policy.session, decoding=decoding, generator=generator),
                [dialogues[n] for n in owner],
                self.host,
                policy.tokenizer,
                self.table,
                self.limits,
            )
            if weights:
                seat.weights = weights[number]
            seats.append(seat)
        matches = Matches(seats, self.host, self.limits.turns)
        return self._of_seats(matches.run(starts(batch, owner, seed)), batch, group_size)

    def _of_seats(
        self, seats: list[list[Episode]], batch: TensorDict, group_size: int
    ) -> TensorDict:
        """Return the rows, grouped by prompt and seat."""
        places = [
            (prompt, number, prompt * group_size + each)
            for prompt in range(len(batch))
            for number in range(len(seats))
            for each in range(group_size)
        ]
        owner, seat, match = torch.tensor(places, device=self.policy.device).T
        rows = episode_rows(
            [seats[number][each] for _, number, each in places],
            self.policy.tokenizer,
            group_size=group_size,
            version=self.policy.version,
            device=self.policy.device,
        )
        versions = torch.tensor([policy.version for policy in self.policies], device=seat.device)
        rows["policy_version"] = rows["response_mask"] * versions[seat][:, None]
        rows["seat"], rows["match_id"] = seat, match
        rows = keep_prompt(rows, batch, owner)
        moved = rows["response_mask"].any(1)
        failed = torch.tensor(
            [bool(text) for text in decode_texts(rows["episode_error"])], device=moved.device
        )
        return rows[moved | failed]
