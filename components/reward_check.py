"""Checks of scored rows: a limit on invalid rewards, and counts of degenerate groups."""

from __future__ import annotations

import torch
from tensordict import TensorDict
from torch import Tensor

from rlcomp.arguments import Probability
from rlcomp.batch import decode_texts
from rlcomp.component import Component
from rlcomp.errors import DataError
from rlcomp.functional.group_statistics import Groups
from rlcomp.interfaces.reward import without_failed
from rlcomp.interfaces.turns import first_row_mask
from rlcomp.metrics import record


class RewardCheck(Component):
    """Check that stops a run with too many invalid rewards and counts degenerate groups.

    Records ``groups/zero_variance``, the share of groups of two or more valid rows whose rewards
    are all equal, ``groups/unjudged``, the share of groups without a valid row, and
    ``groups/all_truncated``, the share of groups whose responses all hit the length limit.

    An episode counts once, even if it has several rows (``trajectory_id``). An episode whose
    environment failed (``episode_error``) is invalid.

    Reads ``reward``, ``reward_valid``, ``group_id`` ``[B]``, and if present ``truncated``
    ``[B]``, ``prompt``, ``response``, ``invalid_reason`` and ``episode_error`` ``[B, W]``. Writes
    ``reward_valid``.

    Args:
        max_invalid_fraction: largest accepted share of invalid rewards; 1: no limit.

    Raises:
        DataError: too many rewards are invalid; the message names the first.
        NumericalError: a valid reward is not finite.
    """

    reads = ("reward", "reward_valid", "group_id")
    optional = (
        *("truncated", "prompt", "response", "invalid_reason", "episode_error"),
        "trajectory_id",
    )
    writes = ("reward_valid",)

    def __init__(self, *, max_invalid_fraction: Probability = 0.2) -> None:
        super().__init__()
        self.max_invalid_fraction = max_invalid_fraction

    def forward(self, batch: TensorDict) -> TensorDict:
        """Count the groups; stop the run if too many rewards are invalid."""
        valid = without_failed(batch, batch["reward_valid"])
        batch["reward_valid"] = valid
        episodes = first_row_mask(batch).to(valid.device)
        groups = Groups(batch["reward"], batch["group_id"], valid & episodes)
        first = _first_of_group(groups)
        record("groups/unjudged", (groups.count == 0).float(), where=first)
        several = first & (groups.count >= 2)
        varied = groups.total(groups.comparable.to(groups.reward.dtype)) > 0
        record("groups/zero_variance", (~varied).float(), where=several)
        if "truncated" in batch.keys():
            complete = groups.total((~batch["truncated"]).to(groups.reward).cpu())
            record("groups/all_truncated", (complete == 0).float(), where=first)
        self._limit_invalid(batch, ~valid & episodes, int(episodes.sum()))
        return batch

    def _limit_invalid(self, batch: TensorDict, invalid: Tensor, rows: int) -> None:
        number = int(invalid.sum())
        if not rows or number <= self.max_invalid_fraction * rows:
            return
        first = int(invalid.nonzero()[0])
        texts = [
            f"{key} {decode_texts(batch[key][first : first + 1])[0]!r:.200}"
            for key in ("prompt", "response")
            if key in batch.keys()
        ]
        reasons = [
            decode_texts(batch[key][first : first + 1])[0]
            for key in ("episode_error", "invalid_reason")
            if key in batch.keys()
        ]
        reason = next(filter(None, reasons), "") or (
            "the reward returned None or NaN for it, as for a row without a verdict (return 0.0 "
            "for a wrong answer)"
        )
        raise DataError(
            f"{number} of {rows} rewards are invalid, reward_check.max_invalid_fraction is "
            f"{self.max_invalid_fraction:g}; the first is row {first} ({', '.join(texts)}): "
            f"{reason}; correct the cause, or set reward_check.max_invalid_fraction=1 to continue"
        )


def _first_of_group(groups: Groups) -> Tensor:
    """Return the mask of the first row of each group."""
    rows = torch.arange(len(groups.index))
    start = torch.full((groups.groups,), len(rows), dtype=torch.int64)
    return rows == start.scatter_reduce(0, groups.index, rows, "amin")[groups.index]
