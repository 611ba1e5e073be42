"""On-policy pairs: the best and the worst answer of each group."""

from __future__ import annotations

from typing import Literal

import torch
from tensordict import TensorDict
from torch import Tensor

from rlcomp.arguments import NonNegativeFloat
from rlcomp.component import Component
from rlcomp.functional.group_statistics import is_rounding
from rlcomp.metrics import record
from rlcomp.seed import new_generator


class BestWorst(Component):
    """On-policy pairs by any reward: the best answer of a group is chosen, the worst rejected.

    Ties are broken at random. A group whose rewards differ by at most ``gap`` gives two rows
    without a valid reward, which every loss ignores. A group of one row gives no rows.

    Reads ``reward``, ``reward_valid``, ``group_id`` ``[B]``. Writes ``chosen`` and
    ``reward_valid`` of the remaining rows: row 2k is chosen, row 2k + 1 rejected.

    Records ``pairing/pairs``, the share of groups that give a pair, and ``pairing/gap``, the mean
    difference of its rewards.

    Args:
        rejected: the ``worst`` answer, or a ``random`` one that is worse than the best.
        gap: the rewards of a pair differ by more than this.

    Source:
        Guo et al. 2024 (online DPO), arXiv:2402.04792; Yuan et al. 2024 (Self-Rewarding),
        arXiv:2401.10020, section 2.3 (best and worst).
    """

    reads = ("reward", "reward_valid", "group_id")
    writes = ("chosen", "reward_valid")
    drops_rows = True
    min_group_size = 2

    def __init__(
        self, *, rejected: Literal["worst", "random"] = "worst", gap: NonNegativeFloat = 0.0
    ) -> None:
        super().__init__()
        self.rejected = rejected
        self.gap = gap
        self.generator = new_generator()

    def forward(self, batch: TensorDict) -> TensorDict:
        """Return the rows of the pairs."""
        candidates = [self._pair(batch, group) for group in batch["group_id"].unique().tolist()]
        pairs = [pair for pair in candidates if pair is not None]
        index = torch.tensor([row for best, worst, _ in pairs for row in (best, worst)])
        valid = torch.tensor([is_pair for *_, is_pair in pairs], dtype=torch.bool)
        rows = batch[index.long().to(batch["group_id"].device)]
        device = rows["reward"].device
        rows["chosen"] = torch.arange(len(index), device=device) % 2 == 0
        rows["reward_valid"] = valid.repeat_interleave(2).to(device)
        record("pairing/pairs", valid.double())
        gaps = rows["reward"].view(-1, 2)
        record("pairing/gap", gaps[:, 0] - gaps[:, 1], where=valid.to(device))
        return rows

    def _pair(self, batch: TensorDict, group: int) -> tuple[int, int, bool] | None:
        """Return best row, worst row, and whether they are a pair; None for a group of one row."""
        rows = (batch["group_id"] == group).nonzero().flatten().cpu()
        if len(rows) < 2:
            return None
        valid = batch["reward_valid"].cpu()[rows]
        reward = torch.where(valid, batch["reward"].detach().cpu()[rows], torch.nan)
        best = self._drawn(reward == reward[valid].max()) if bool(valid.any()) else None
        worse = self._worse(reward, reward[best]) if best is not None else valid & ~valid
        if best is None or not bool(worse.any()):
            return int(rows[0]), int(rows[1]), False
        if self.rejected == "worst":
            worse = reward == reward[valid].min()
        return int(rows[best]), int(rows[self._drawn(worse)]), True

    def _worse(self, reward: Tensor, best: Tensor) -> Tensor:
        """Select the rows whose reward is below the best by the gap and by more than rounding."""
        return (reward < best - self.gap) & ~is_rounding(reward, best.expand_as(reward))

    def _drawn(self, among: Tensor) -> int:
        places = among.nonzero().flatten()
        draw = torch.randint(len(places), (), generator=self.generator)
        return int(places[draw])
