"""Filters of rows."""

from __future__ import annotations

import torch
from tensordict import TensorDict
from transformers import PreTrainedTokenizerBase

from rlcomp.arguments import NonEmptyText, NonNegativeInt
from rlcomp.component import Component
from rlcomp.functional.group_statistics import group_accuracy, varying_groups
from rlcomp.metrics import record
from rlcomp.text.reasoning import ThoughtEnd, response_ids


class CorrectFilter(Component):
    """Filter that drops rows with a wrong or unjudged response (rejection sampling).

    It keeps row ``i`` iff ``correct_i`` and ``reward_valid_i``. The kept rows may be imitated
    (rejection-sampling fine-tuning, RAFT, ReST, STaR). Inside a ``Refill``, sampling continues
    until the batch is full.

    Reads ``correct``, ``reward_valid`` ``[B]``. Writes nothing; may return a batch without rows.
    Records ``filter/rejected_fraction``, the share of rows it drops.

    Source:
        Dong et al. 2023 (RAFT), arXiv:2304.06767; Yuan et al. 2023, arXiv:2308.01825.
    """

    reads = ("correct", "reward_valid")
    drops_rows = True

    def forward(self, batch: TensorDict) -> TensorDict:
        """Return the rows with a correct response."""
        keep = batch["correct"] & batch["reward_valid"]
        record("filter/rejected_fraction", ~keep)
        return batch[keep]


class OverlongFilter(Component):
    """Filter that sets ``response_mask`` of truncated rows to False (DAPO's overlong filter).

    Truncated rows have no gradient, and no denominator counts them. The filter comes after the
    advantage, so that their rewards still count in the baseline.

    Reads ``truncated`` ``[B]``, ``response_mask`` ``[B, T]``. Writes ``response_mask``. Records
    ``filter/overlong_fraction``.

    Source:
        Yu et al. 2025 (DAPO), arXiv:2503.14476, section 3.4.
    """

    reads = ("truncated", "response_mask")
    writes = ("response_mask",)

    def forward(self, batch: TensorDict) -> TensorDict:
        """Set the masks to False."""
        batch["response_mask"] = batch["response_mask"] & ~batch["truncated"][:, None]
        record("filter/overlong_fraction", batch["truncated"])
        return batch


class SeatFilter(Component):
    """Filter that keeps the rows of one player (seat) of a game, for the learner of this player.

    Reads ``seat`` ``[B]``. Writes nothing; may return a batch without rows.

    Args:
        seat: the number of the seat, from 0.
    """

    reads = ("seat",)
    drops_rows = True

    def __init__(self, *, seat: NonNegativeInt = 0) -> None:
        super().__init__()
        self.seat = seat

    def forward(self, batch: TensorDict) -> TensorDict:
        """Return the rows of the seat."""
        return batch[batch["seat"] == self.seat]


class ThoughtFilter(Component):
    """Filter that restricts ``response_mask`` to the thought, ``think_end`` included.

    A response without ``think_end`` is all thought. The filter comes after the advantage. It fits
    ``reward=information_gain``, which scores the thought only.

    Reads ``tokens``, ``response_mask`` ``[B, T]``. Writes ``response_mask``. Records
    ``filter/answer_fraction``, the share of response tokens that it masks.

    Args:
        tokenizer: the policy's tokenizer, a fast one.
        think_end: the text that ends a thought.

    Raises:
        DataError: the tokenizer cannot write ``think_end``.

    Source:
        Hatamizadeh et al. 2025 (RLP), arXiv:2510.01265.
    """

    reads = ("tokens", "response_mask")
    writes = ("response_mask",)

    def __init__(
        self, *, tokenizer: PreTrainedTokenizerBase, think_end: NonEmptyText = "</think>"
    ) -> None:
        super().__init__()
        self.tokenizer = tokenizer
        self.think_end = think_end
        self._end = ThoughtEnd(tokenizer, think_end)

    def forward(self, batch: TensorDict) -> TensorDict:
        """Restrict the masks to the thoughts."""
        mask = batch["response_mask"]
        rows, starts = response_ids(batch)
        thoughts = [self._end.length(row) for row in rows]
        lengths = [len(row) if n is None else n for row, n in zip(rows, thoughts, strict=True)]
        ends = starts + torch.tensor(lengths, device=mask.device)
        thought = torch.arange(mask.shape[1], device=mask.device) < ends[:, None]
        batch["response_mask"] = mask & thought
        record("filter/answer_fraction", ~thought, where=mask)
        return batch


class VariedGroupFilter(Component):
    """Filter that drops groups with zero reward variance (DAPO dynamic sampling).

    It keeps group ``g`` iff ``max_g(R) - min_g(R)`` over its valid rows is above 0 by more than
    rounding; groups with fewer than two valid rows are dropped. It belongs inside a ``Refill``,
    which samples until the batch is full. ``_keys_: {reward: correct}`` compares correctness
    instead of rewards.

    Reads ``reward``, ``reward_valid``, ``group_id`` ``[B]``, and ``correct`` ``[B]`` if
    present. Writes nothing; returns whole groups, perhaps none. Records
    ``filter/zero_variance_fraction``, the share of rows it drops. If ``correct`` is present, it
    also records ``filter/all_right`` and ``filter/all_wrong``: the shares of rows that are valid
    and whose group's valid answers are all right, or all wrong.

    Source:
        Yu et al. 2025 (DAPO), arXiv:2503.14476, section 3.2.
    """

    reads = ("reward", "reward_valid", "group_id")
    optional = ("correct",)
    drops_rows = True
    min_group_size = 2

    def forward(self, batch: TensorDict) -> TensorDict:
        """Return the rows of groups with unequal rewards."""
        groups, valid = batch["group_id"], batch["reward_valid"]
        differ = varying_groups(batch["reward"], groups, valid)
        record("filter/zero_variance_fraction", ~differ)
        if "correct" in batch.keys():
            accuracy = group_accuracy(batch["correct"], groups, valid)
            record("filter/all_right", (accuracy == 1) & valid)
            record("filter/all_wrong", (accuracy == 0) & valid)
        return batch[differ]


class ZeroVarianceMask(Component):
    """Filter that sets ``response_mask`` of groups with zero reward variance to False.

    Groups with fewer than two valid rows are masked, too. A group baseline gives all these groups
    the advantage 0 in any case. The mask also removes their KL and entropy gradients and their
    tokens from every denominator. The filter compares the shaped reward;
    ``_keys_: {reward: correct}`` compares correctness instead.

    Reads ``reward``, ``reward_valid``, ``group_id`` ``[B]``, ``response_mask`` ``[B, T]``. Writes
    ``response_mask``. Records ``filter/zero_variance_fraction``.
    """

    reads = ("reward", "reward_valid", "group_id", "response_mask")
    writes = ("response_mask",)
    min_group_size = 2

    def forward(self, batch: TensorDict) -> TensorDict:
        """Set the masks to False."""
        differ = varying_groups(batch["reward"], batch["group_id"], batch["reward_valid"])
        batch["response_mask"] = batch["response_mask"] & differ[:, None]
        record("filter/zero_variance_fraction", ~differ)
        return batch
