"""What sets the price of a nat of KL: read by whatever charges it, told what was measured."""

from __future__ import annotations

import torch
from tensordict import TensorDict
from torch import Tensor, nn

from rlcomp.arguments import Checked
from rlcomp.functional.kl_coefficient import Unit, mean_kl
from rlcomp.functional.masked import masked
from rlcomp.metrics import record


class KLController(nn.Module, metaclass=Checked):
    """The coefficient beta of a KL term; the order is fixed: it is used, then updated.

    Subclasses override :meth:`observe` when they move with the KL, :meth:`coef` when they move with
    the run. What moves stands in a buffer, so that checkpoints hold it.

    Attributes:
        kl_coef: float64 scalar, in reward units per nat.
        unit: what a KL is measured in: nats per token or per response.
    """

    unit: Unit = "token"
    kl_coef: Tensor

    def __init__(self, *, kl_coef: float) -> None:
        super().__init__()
        self.register_buffer("kl_coef", torch.tensor(kl_coef, dtype=torch.float64))

    def coef(self) -> float:
        """The coefficient now."""
        return float(self.kl_coef)

    def measure(self, kl: Tensor, mask: Tensor) -> float:
        """The mean of a KL ``[B, T]`` over a batch, in this controller's unit; NaN if empty."""
        return mean_kl(kl, mask, self.unit)

    def observe(self, kl: float, num_sequences: int) -> None:
        """Be told, once per rollout batch, what :meth:`measure` found on so many responses."""

    def charge(self, kl: Tensor, mask: Tensor) -> float:
        """The coefficient now, and then the update from this batch.

        Args:
            kl: shape ``[B, T]``, nats, 0 outside the mask.
            mask: shape ``[B, T]``, bool.
        """
        coef = self.coef()
        record("kl/coef", coef)
        self.observe(self.measure(kl, mask), int(mask.any(1).sum()))
        return coef

    def price(self, kl: Tensor, batch: TensorDict) -> Tensor:
        """What each response pays, and then the update from this batch.

        A greedy answer pays nothing: it is a baseline, no sample (ReMax).

        Args:
            kl: shape ``[B, T]``, nats, 0 outside the mask.
            batch: holds ``response_mask`` ``[B, T]`` and perhaps ``greedy`` ``[B]``.

        Returns:
            Shape ``[B]``, in reward units.
        """
        price = self.charge(kl, batch["response_mask"]) * kl.sum(1)
        return masked(price, ~batch["greedy"]) if "greedy" in batch.keys() else price
