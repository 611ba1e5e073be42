"""The critic's loss."""

from __future__ import annotations

from tensordict import TensorDict
from torch import Tensor

from rlcomp.arguments import NonNegativeFloat, PositiveFloat
from rlcomp.component import Component
from rlcomp.functional.masked import masked
from rlcomp.functional.value import clipped_value_error, explained_variance, value_error
from rlcomp.interfaces.loss import Loss, scalars
from rlcomp.metrics import record


class ValueLoss(Loss):
    """``loss = value_coef * sum_t loss_weight_t * max((V - G)^2, (V' - G)^2) / 2``.

    ``V'`` is ``V``, kept within ``clip`` of what the critic said before the update.

    Reads ``response_mask``, ``value``, ``old_value``, ``returns`` ``[B, T]``. Writes the scalar
    ``loss``.

    Records ``value/clip_fraction`` (tokens whose gradient the clip takes away) and
    ``value/explained_variance`` (of the critic before the update, over all rows of the optimiser
    step).

    Args:
        clip: in reward units; null for none.
        value_coef: weight of the term, where policy and critic share a backbone.
        reduction: writes ``loss_weight``.

    Source:
        Schulman et al. 2017, arXiv:1707.06347, eq. 9; the clip is the authors' code's.
    """

    reads = ("response_mask", "value", "old_value", "returns")
    runs = ("reduction",)
    contained = True

    def __init__(
        self, *, clip: PositiveFloat | None, value_coef: NonNegativeFloat, reduction: Component
    ) -> None:
        super().__init__(reduction=reduction)
        self.clip = clip
        self.value_coef = value_coef

    def prepare(self, batch: TensorDict) -> TensorDict:
        """``loss_weight``; what the critic explains is known only from all rows together."""
        explained = explained_variance(batch["old_value"], batch["returns"], batch["response_mask"])
        record("value/explained_variance", explained, where=explained.isfinite())
        return super().prepare(batch)

    def forward(self, batch: TensorDict) -> TensorDict:
        """The scalar loss of these rows."""
        batch = self.weighted(batch)
        mask = batch["response_mask"]
        # All are emptied before they meet: NaN outside the mask must not reach the gradient.
        value, returns = masked(batch["value"], mask), masked(batch["returns"], mask)
        error = self._error(value, masked(batch["old_value"], mask), returns, mask)
        return scalars(loss=self.value_coef * (error * batch["loss_weight"]).sum())

    def _error(self, value: Tensor, old_value: Tensor, returns: Tensor, mask: Tensor) -> Tensor:
        plain = value_error(value, returns)
        if self.clip is None:
            return plain
        error = clipped_value_error(value, old_value, returns, self.clip)
        record("value/clip_fraction", error > plain, where=mask)
        return error
