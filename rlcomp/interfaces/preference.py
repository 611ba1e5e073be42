"""Base classes of the parts of a preference loss: the score of a row, the link of a pair."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import ClassVar

from tensordict import TensorDict
from torch import Tensor

from rlcomp.interfaces.loss import Part
from rlcomp.keys import Key, OwnKey


class Score(Part):
    """Score ``u`` of an answer under the policy, for one row.

    Reads the keys that :meth:`score` reads. Writes ``score`` ``[B]``, nats, with gradient.
    """

    keys: ClassVar[Mapping[Key, OwnKey]] = {
        "score": ("B", "float", "u: how likely the policy makes the answer, against its yardstick"),
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


class Link(Part):
    """Loss of a pair by the scores of its two answers.

    Reads ``chosen_score``, ``rejected_score`` ``[U]``, a row for each pair. Writes ``pair_loss``
    ``[U]`` and ``flipped_loss`` ``[U]``, the loss of the flipped label.
    """

    keys: ClassVar[Mapping[Key, OwnKey]] = {
        "chosen_score": ("B", "float", "u_w: score of the pair's chosen answer"),
        "rejected_score": ("B", "float", "u_l: score of the pair's rejected answer"),
        "pair_loss": ("B", "float", "loss of the pair"),
        "flipped_loss": ("B", "float", "loss of the pair, were its label the other one"),
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
