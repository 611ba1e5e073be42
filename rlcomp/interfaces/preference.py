"""Base classes of losses of preference pairs: score, link function and loss; helpers of pairs."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import ClassVar

import torch
from tensordict import TensorDict
from torch import Tensor

from rlcomp.errors import DataError
from rlcomp.functional.reduction import masked
from rlcomp.interfaces.loss import LossPart, RowLoss
from rlcomp.keys import Key, OwnKey


class Score(LossPart):
    """Score ``u`` of an answer under the policy, for one row.

    Reads the keys that :meth:`score` reads. Writes ``score`` ``[B]``, nats, with gradient.
    """

    keys: ClassVar[Mapping[Key, OwnKey]] = {
        "score": ("B", "float", "u: score of the answer under the policy"),
        "common_length": ("B", "int64", "response tokens of the shorter answer of the row's pair"),
    }
    writes: ClassVar[tuple[Key, ...]] = ("score",)

    @abstractmethod
    def score(self, batch: TensorDict) -> Tensor:
        """Compute the score of every row, shape ``[B]``."""

    def forward(self, batch: TensorDict) -> TensorDict:
        """Write the score."""
        batch["score"] = self.score(batch)
        return batch


class LinkFunction(LossPart):
    """Loss of a pair as a function of the scores of its two answers.

    Reads ``chosen_score`` and ``rejected_score``, ``[U]`` for ``U`` pairs. Writes ``pair_loss``
    ``[U]``, and ``flipped_loss`` ``[U]``, the loss of the pair with the label flipped.
    """

    keys: ClassVar[Mapping[Key, OwnKey]] = {
        "chosen_score": ("B", "float", "u_w: score of the pair's chosen answer"),
        "rejected_score": ("B", "float", "u_l: score of the pair's rejected answer"),
        "pair_loss": ("B", "float", "loss of the pair"),
        "flipped_loss": ("B", "float", "loss of the pair with the label flipped"),
    }
    reads: ClassVar[tuple[Key, ...]] = ("chosen_score", "rejected_score")
    writes: ClassVar[tuple[Key, ...]] = ("pair_loss", "flipped_loss")

    @abstractmethod
    def loss(self, chosen: Tensor, rejected: Tensor) -> Tensor:
        """Compute the loss of every pair, shape ``[U]``."""

    def flipped(self, chosen: Tensor, rejected: Tensor) -> Tensor:
        """Compute the loss of every pair with its label flipped, shape ``[U]``."""
        return self.loss(rejected, chosen)

    def forward(self, batch: TensorDict) -> TensorDict:
        """Write both losses."""
        scores = batch["chosen_score"], batch["rejected_score"]
        batch["pair_loss"] = self.loss(*scores)
        batch["flipped_loss"] = self.flipped(*scores)
        return batch


def first_is_chosen(chosen: Tensor) -> Tensor:
    """Return the mask of the pairs whose first row is the chosen answer, shape ``[U]``.

    Args:
        chosen: mask of chosen answers, shape ``[B]``; rows ``2u`` and ``2u + 1`` are pair ``u``.

    Raises:
        DataError: a pair does not have exactly one chosen answer.
    """
    pairs = chosen.view(-1, 2)
    wrong = (pairs.sum(1) != 1).nonzero().flatten().tolist()
    if wrong:
        raise DataError(
            f"rows {2 * wrong[0]} and {2 * wrong[0] + 1} are a pair of which "
            f"{int(pairs[wrong[0]].sum())} are chosen: mark exactly one answer of a pair as chosen"
        )
    return pairs[:, 0]


def sides(values: Tensor, first: Tensor) -> tuple[Tensor, Tensor]:
    """Return the values of the chosen and of the rejected answers, shape ``[U]`` each.

    Args:
        values: one value per row, shape ``[B]``.
        first: result of :func:`first_is_chosen`, shape ``[U]``.
    """
    first_row, second_row = values.view(-1, 2).unbind(1)
    return torch.where(first, first_row, second_row), torch.where(first, second_row, first_row)


class PairLoss(RowLoss):
    """Base class of losses of pairs: rows ``2u`` and ``2u + 1`` are pair ``u``, in either order.

    ``row_weight`` is the pair's share of ``pair_weight`` ``[B]`` if the batch has it; otherwise all
    pairs weigh the same.
    """

    keys: ClassVar[Mapping[Key, OwnKey]] = {
        "pair_weight": ("B", "float", "weight of the row's pair", {"example": "positive"}),
        "label_noise": ("B", "float", "probability that the label of the row's pair is wrong"),
    }
    unit_rows = 2

    def prepare(self, batch: TensorDict) -> TensorDict:
        """Return ``row_weight`` of both rows of every pair, ``[B]``."""
        prepared = super().prepare(batch)
        if "pair_weight" in batch.keys():
            weight = by_pair_weight(prepared["row_weight"], batch["pair_weight"])
            prepared["row_weight"] = weight
        return prepared


def pair_entry(batch: TensorDict, key: Key, default: float, like: Tensor) -> Tensor:
    """Return the entry of each pair, ``[U]``; ``default`` if the batch lacks the key.

    Args:
        batch: two adjacent rows per pair, with equal entries.
        key: an entry ``[B]`` of the batch.
        default: the value of all pairs of a batch without the key.
        like: a tensor ``[U]`` of the result's dtype and device.
    """
    if key not in batch.keys():
        return torch.full_like(like, default)
    entries: Tensor = batch[key].view(-1, 2)[:, 0].to(like.dtype)
    return entries


def by_pair_weight(row_weight: Tensor, pair_weight: Tensor) -> Tensor:
    """Return each pair's share of the weights of all valid pairs, at both of its rows, ``[B]``.

    Args:
        row_weight: weight of the row, shape ``[B]``; 0 for invalid pairs.
        pair_weight: shape ``[B]``; the weight of a pair is the mean of its two rows.
    """
    weight = pair_weight.view(-1, 2).mean(1).repeat_interleave(2)
    weight = masked(weight, row_weight > 0)
    total = weight.sum() / 2
    return weight / torch.where(total > 0, total, 1.0)
