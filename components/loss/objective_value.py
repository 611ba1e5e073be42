"""PPO's clipped value loss, summed over objectives."""

from __future__ import annotations

from tensordict import TensorDict

from components.loss.value import ValueLoss
from rlcomp.interfaces.loss import scalars


class ObjectiveValueLoss(ValueLoss):
    """Clipped value loss of each objective, summed.

    ``loss = c_V * sum_k sum_t w_t * max((V_kt - G_kt)^2, (V'_kt - G_kt)^2) / 2``; see
    :class:`ValueLoss`.

    Reads ``response_mask`` ``[B, T]``, ``objective_values``, ``old_objective_values``,
    ``objective_returns`` ``[B, T, K]``. Writes the scalar ``loss``.

    Records what :class:`ValueLoss` does, as means over the objectives.

    Args:
        clip: eps_V, in units of the rewards; null for no clipping.
        value_coef: c_V.
        reduction: writes ``loss_weight``.
    """

    equation = (
        "loss = {value_coef} sum_k sum_t w_t max((V_kt - G_kt)^2, (V'_kt - G_kt)^2) / 2, V'_kt = "
        "clip(V_kt, V_old_kt - {clip}, V_old_kt + {clip})"
    )
    keys = {
        "objective_values": ("B T K", "float", "value of each objective, in the order of rewards"),
        "old_objective_values": ("B T K", "float", "objective_values before the update"),
        "objective_returns": ("B T K", "float", "return of each objective, its critic's target"),
    }
    reads = ("response_mask", "objective_values", "old_objective_values", "objective_returns")

    def prepare(self, batch: TensorDict) -> TensorDict:
        """``loss_weight``; records the explained variance of each objective."""
        prepared = batch.select()
        for k in range(batch["objective_returns"].shape[-1]):
            one = batch.copy()
            one["old_value"] = batch["old_objective_values"][..., k]
            one["returns"] = batch["objective_returns"][..., k]
            prepared = super().prepare(one)
        return prepared

    def forward(self, batch: TensorDict) -> TensorDict:
        """The scalar loss of these rows."""
        batch = self.weighted(batch)
        total = batch["loss_weight"].new_zeros(())
        for k in range(batch["objective_returns"].shape[-1]):
            one = batch.copy()
            one["value"] = batch["objective_values"][..., k]
            one["old_value"] = batch["old_objective_values"][..., k]
            one["returns"] = batch["objective_returns"][..., k]
            total = total + super().forward(one)["loss"]
        return scalars(loss=total)
