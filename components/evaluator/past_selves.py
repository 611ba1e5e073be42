"""Win rate against earlier copies of the policy."""

from __future__ import annotations

from contextlib import nullcontext

import torch
from tensordict import TensorDict
from torch import Tensor, nn

from rlcomp.arguments import NonEmptyText, PositiveInt
from rlcomp.component import Component
from rlcomp.data.examples import held_out_examples, prompt_batch
from rlcomp.episodes.match import MatchPlayer
from rlcomp.errors import ConfigError
from rlcomp.functional.reduction import masked
from rlcomp.interfaces.reward import without_failed
from rlcomp.interfaces.task import Task
from rlcomp.metrics import record
from rlcomp.model.weight_snapshot import CopiedWeights


class SelfPlayWinRate(Component):
    """Evaluator of a self-playing policy's win rate against earlier copies of its weights.

    The seat with the higher pay wins a match; equal pay is half a win. A match whose environment
    failed (``episode_error``) does not count. The policy takes each seat in turn, an earlier copy
    the other one. A copy is taken at each evaluation after the matches; the policy plays against
    the latest ``keep`` copies.

    Records ``<name>/win_rate`` over all copies, ``<name>/win_rate_oldest`` and
    ``<name>/win_rate_newest`` against the oldest and the newest copy; nothing at the first
    evaluation. A policy that circles beats the newest copy but not the oldest.

    Args:
        player: the player of the matches, with the same policy in both seats.
        task: the task with the held-out prompts.
        keep: number of copies.
        num_prompts: number of prompts; fewer if the task has fewer.
        matches_per_prompt: matches per prompt, seat and copy.
        name: prefix of its metrics; each evaluator needs its own.

    Raises:
        ConfigError: the seats have different policies, or there are more than two seats.
    """

    taken: Tensor

    def __init__(
        self,
        *,
        player: MatchPlayer,
        task: Task,
        keep: PositiveInt = 4,
        num_prompts: PositiveInt = 16,
        matches_per_prompt: PositiveInt = 16,
        name: NonEmptyText = "past_selves",
    ) -> None:
        super().__init__()
        if len(player.policies) != 2 or player.policies[0] is not player.policies[1]:
            raise ConfigError(
                "player.policies: earlier selves are met in a game of two seats that one policy "
                "plays, policies=['${policy}', '${policy}']"
            )
        self.player = player
        self.matches_per_prompt = matches_per_prompt
        self.name = name
        self.copies = nn.ModuleList(CopiedWeights(player.policy) for _ in range(keep))
        self.register_buffer("taken", torch.zeros((), dtype=torch.int64))
        # The same matches at every evaluation, so that only the policies differ.
        self.seed = torch.initial_seed()
        self.examples = held_out_examples(task, num_prompts, self.seed)

    def forward(self, batch: TensorDict) -> TensorDict:
        """Play the matches, record and take a copy; ignore the training batch."""
        count, keep = int(self.taken), len(self.copies)
        rates = [self._win_rate(n % keep) for n in range(max(0, count - keep), count)]
        if rates:
            rate = torch.tensor(rates)
            valid = ~rate.isnan()
            record(f"{self.name}/win_rate", rate, where=valid)
            record(f"{self.name}/win_rate_oldest", rate[:1], where=valid[:1])
            record(f"{self.name}/win_rate_newest", rate[-1:], where=valid[-1:])
        self.copies[count % keep].take()  # type: ignore[operator]
        self.taken += 1
        return batch

    def _win_rate(self, number: int) -> float:
        """Return the win rate against a copy over both seats; NaN if all matches failed."""
        copy = self.copies[number]
        assert isinstance(copy, CopiedWeights)
        wins = []
        for seat in range(2):
            weights = [nullcontext if seat == own else copy.in_place for own in range(2)]
            rows = self.player.play(
                prompt_batch(self.examples),
                group_size=self.matches_per_prompt,
                decoding=None,
                generator=torch.Generator().manual_seed(self.seed + seat),
                seed=self.seed,
                weights=weights,
            )
            wins.append(_wins(rows, seat))
        return float(torch.cat(wins).mean())


def _wins(rows: TensorDict, seat: int) -> Tensor:
    """Return for each whole match 1 if the seat is paid more, 1/2 for equal pay, else 0."""
    paid = masked(rows["turn_reward"], rows["response_mask"]).sum(1)
    of_seat = paid.new_zeros(int(rows["match_id"].max()) + 1)
    gap = of_seat.index_add(0, rows["match_id"], torch.where(rows["seat"] == seat, paid, -paid))
    failed = ~without_failed(rows, torch.ones_like(rows["match_id"], dtype=torch.bool))
    whole = torch.ones_like(gap, dtype=torch.bool)
    whole[rows["match_id"][failed]] = False
    gap = gap[whole]
    return (gap > 0).double() + (gap == 0).double() / 2
