"""PPO's clipped value loss, summed over objectives."""

from __future__ import annotations

import torch
from tensordict import TensorDict

from components.loss.value import ValueLoss
from rlcomp.interfaces.loss import scalars


class ObjectiveValueLoss(ValueLoss):
    """Clipped value loss of each objective, summed.

    ``loss = c_V * sum_k sum_t w_kt * max((V_kt - G_kt)^2, (V'_kt - G_kt)^2) / 2``; see
    :class:`ValueLoss`. For the critic of objective k a row that lacks k is an empty response: it
    has no error and is not in the denominator of ``w_k``.

    Reads ``response_mask`` ``[B, T]``, ``objective_values``, ``old_objective_values``,
    ``objective_returns`` ``[B, T, K]``, ``objective_present`` ``[B, K]``. Writes the scalar
    ``loss``.

    Records the metrics of :class:`ValueLoss` as means over the objectives of each row.

    Args:
        clip: eps_V, in units of the rewards; null for no clipping.
        value_coef: c_V.
        reduction: the reduction; writes the weights of each objective.
    """

    equation = (
        "loss = {value_coef} sum_k sum_t w_kt max((V_kt - G_kt)^2, (V'_kt - G_kt)^2) / 2, V'_kt = "
        "clip(V_kt, V_old_kt - {clip}, V_old_kt + {clip})"
    )
    keys = {
        "objective_values": ("B T K", "float", "value of each objective, in the order of rewards"),
        "old_objective_values": ("B T K", "float", "objective_values before the update"),
        "objective_returns": ("B T K", "float", "return of each objective, its critic's target"),
        "objective_present": ("B K", "bool", "whether the row has a reward for that objective"),
        "objective_loss_weight": ("B T K", "float", "loss_weight of each objective's value loss"),
    }
    reads = (  # type: ignore[assignment]
        "response_mask",
        "objective_values",
        "old_objective_values",
        "objective_returns",
        "objective_present",
    )
    weight_key = "objective_loss_weight"

    def prepare(self, batch: TensorDict) -> TensorDict:
        """Return the weights of each objective, and record the explained variance of each."""
        count = batch["objective_returns"].shape[-1]
        parts = [super(ObjectiveValueLoss, self).prepare(_one(batch, k)) for k in range(count)]
        weights = torch.stack([part["loss_weight"] for part in parts], 2)
        return batch.select().set("objective_loss_weight", weights)

    def forward(self, batch: TensorDict) -> TensorDict:
        """Return the scalar loss of these rows."""
        batch = self.weighted(batch)
        total = batch["objective_loss_weight"].new_zeros(())
        for k in range(batch["objective_returns"].shape[-1]):
            one = _one(batch, k)
            one["value"] = batch["objective_values"][..., k]
            one["loss_weight"] = batch["objective_loss_weight"][..., k]
            total = total + super().forward(one)["loss"]
        return scalars(loss=total)


def _one(batch: TensorDict, k: int) -> TensorDict:
    """Return the batch of one objective, with empty responses in rows that lack it."""
    one = batch.copy()
    one["response_mask"] = batch["response_mask"] & batch["objective_present"][:, k, None]
    one["old_value"] = batch["old_objective_values"][..., k]
    one["returns"] = batch["objective_returns"][..., k]
    return one
