"""Controllers of the KL coefficient."""

from __future__ import annotations

import torch
from tensordict import TensorDict
from torch import Tensor, nn

from rlcomp.arguments import Checked
from rlcomp.functional.kl_coefficient import Unit, mean_kl
from rlcomp.functional.reduction import masked
from rlcomp.metrics import record


class KLController(nn.Module, metaclass=Checked):
    """Base class of KL controllers, which set the coefficient beta of a KL penalty.

    Each batch first uses beta, and then updates it. Subclasses override :meth:`observe` to react to
    the measured KL, or :meth:`coef` to follow a schedule. State is in buffers, so that checkpoints
    hold it.

    Attributes:
        kl_coef: float64 scalar, in reward units per nat.
        unit: unit of the measured KL: nats per token or per response.
    """

    unit: Unit = "token"
    kl_coef: Tensor

    def __init__(self, *, kl_coef: float) -> None:
        super().__init__()
        self.register_buffer("kl_coef", torch.tensor(kl_coef, dtype=torch.float64))

    def coef(self) -> float:
        """Return the current coefficient beta."""
        return float(self.kl_coef)

    def measure(self, kl: Tensor, mask: Tensor) -> float:
        """Average a KL ``[B, T]`` over a batch in this controller's unit; NaN if empty."""
        return mean_kl(kl, mask, self.unit)

    def observe(self, kl: float, num_sequences: int) -> None:
        """Update from the KL (:meth:`measure`) of a rollout batch of ``num_sequences`` rows."""

    def coef_then_observe(self, kl: Tensor, mask: Tensor) -> float:
        """Return the current coefficient; then update it from the KL of this batch.

        Records ``kl/coef``, the returned coefficient.

        Args:
            kl: shape ``[B, T]``, nats, 0 outside the mask.
            mask: shape ``[B, T]``, bool.
        """
        coef = self.coef()
        record("kl/coef", coef)
        self.observe(self.measure(kl, mask), int(mask.any(1).sum()))
        return coef

    def penalty(self, kl: Tensor, mask: Tensor, where: Tensor | None = None) -> Tensor:
        """Compute the KL penalty of each response; then update beta from this batch.

        ``penalty_i = beta * sum_t kl_it``.

        Args:
            kl: shape ``[B, T]``, nats, 0 outside the mask.
            mask: shape ``[B, T]``, bool.
            where: the penalised responses, shape ``[B]``, bool; None: all. The others get 0, but
                count in the measured KL.

        Returns:
            Shape ``[B]``, in reward units.
        """
        penalty = self.coef_then_observe(kl, mask) * kl.sum(1)
        return penalty if where is None else masked(penalty, where)


def times_kl_weight(penalty: Tensor, batch: TensorDict) -> Tensor:
    """Multiply a KL penalty by its row's ``kl_weight``, if a stage wrote it.

    Args:
        penalty: shape ``[B]`` or ``[B, T]``.
        batch: may hold ``kl_weight`` ``[B]``, at least 0.

    Returns:
        The penalty's shape.
    """
    if "kl_weight" not in batch.keys():
        return penalty
    weight: Tensor = batch["kl_weight"].detach().to(penalty.dtype)
    return penalty * (weight if penalty.dim() == 1 else weight[:, None])
