"""PPO's clipped value loss."""

from __future__ import annotations

from tensordict import TensorDict
from torch import Tensor

from rlcomp.arguments import NonNegativeFloat, PositiveFloat
from rlcomp.component import Component
from rlcomp.functional.masked import masked
from rlcomp.functional.value import clipped_value_error, explained_variance, value_error
from rlcomp.interfaces.loss import TokenLoss, scalars
from rlcomp.metrics import record


class ValueLoss(TokenLoss):
    """PPO's clipped value loss.

    ``loss = c_V * sum_t w_t * max((V_t - G_t)^2, (V'_t - G_t)^2) / 2`` with
    ``V'_t = clip(V_t, V_old_t - eps_V, V_old_t + eps_V)``, ``eps_V`` = ``clip``, ``c_V`` =
    ``value_coef``, ``G`` = ``returns``.

    ``V_old`` is the critic before the update. Without a clip: ``(V_t - G_t)^2 / 2``.

    Reads ``response_mask``, ``value``, ``old_value``, ``returns`` ``[B, T]``. Writes the scalar
    ``loss``.

    Records ``value/clip_fraction`` (tokens whose gradient the clip sets to 0) and
    ``value/explained_variance`` (of the critic before the update, over all rows of the optimiser
    step).

    Args:
        clip: eps_V, in reward units; null for no clipping.
        value_coef: c_V; matters if policy and critic share a backbone.
        reduction: writes ``loss_weight``.

    Source:
        Schulman et al. 2017, arXiv:1707.06347, eq. 9; the clip is from the authors' code.
    """

    equation = (
        "loss = {value_coef} sum_t w_t max((V_t - G_t)^2, (V'_t - G_t)^2) / 2, V'_t = "
        "clip(V_t, V_old_t - {clip}, V_old_t + {clip})"
    )
    reads = ("response_mask", "value", "old_value", "returns")
    runs = ("reduction",)
    contained = True

    def __init__(
        self,
        *,
        clip: PositiveFloat | None = 0.5,
        value_coef: NonNegativeFloat = 1.0,
        reduction: Component,
    ) -> None:
        super().__init__(reduction=reduction)
        self.clip = clip
        self.value_coef = value_coef

    def prepare(self, batch: TensorDict) -> TensorDict:
        """Return ``loss_weight``; record the explained variance over all rows of the step."""
        explained = explained_variance(batch["old_value"], batch["returns"], batch["response_mask"])
        record("value/explained_variance", explained, where=explained.isfinite())
        return super().prepare(batch)

    def forward(self, batch: TensorDict) -> TensorDict:
        """Return the scalar loss of these rows."""
        batch = self.weighted(batch)
        mask = batch["response_mask"]
        # Mask all before the difference: NaN outside the mask must not reach the gradient.
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
