"""Value losses."""

from __future__ import annotations

import torch
from tensordict import TensorDict
from tensordict.nn import TensorDictModuleBase
from torch import Tensor

from rlcomp.arguments import NonNegativeFloat, PositiveFloat
from rlcomp.component import Component
from rlcomp.functional.reduction import masked
from rlcomp.functional.value import clipped_value_error, explained_variance, value_error
from rlcomp.interfaces.loss import TokenLoss, scalars
from rlcomp.metrics import record


class ValueLoss(TokenLoss):
    """PPO's clipped value loss.

    ``loss = c_V * sum_t w_t * max((V_t - G_t)^2, (V'_t - G_t)^2) / 2`` with
    ``V'_t = clip(V_t, V_old_t - eps_V, V_old_t + eps_V)``, ``eps_V`` = ``clip``, ``c_V`` =
    ``value_coef``, ``G`` = ``returns``.

    ``V_old`` is the critic before the update. Without a clip the error is ``(V_t - G_t)^2 / 2``.

    Reads ``response_mask``, ``value``, ``old_value``, ``returns`` ``[B, T]``. Writes the scalar
    ``loss``.

    Records ``value/clip_fraction``, the share of tokens whose gradient the clip sets to 0, and
    ``value/explained_variance`` of the critic before the update, over all rows of the optimiser
    step.

    Args:
        clip: eps_V, in reward units; null: no clipping.
        value_coef: c_V, weight of the loss; it matters if policy and critic share a backbone.
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
        # Mask before the difference: NaN outside the mask must not reach the gradient.
        value, returns = masked(batch["value"], mask), masked(batch["returns"], mask)
        error = self._error(value, masked(batch["old_value"], mask), returns, mask)
        return scalars(loss=self.value_coef * (error * batch["loss_weight"]).sum())

    def _error(self, value: Tensor, old_value: Tensor, returns: Tensor, mask: Tensor) -> Tensor:
        """Return half the squared error of each token, clipped, ``[B, T]``."""
        plain = value_error(value, returns)
        if self.clip is None:
            return plain
        error = clipped_value_error(value, old_value, returns, self.clip)
        record("value/clip_fraction", error > plain, where=mask)
        return error


class StateValueLoss(Component):
    """Squared error of a critic: ``L = mean (V(s) - G)^2``.

    Reads ``observation`` and ``value_target`` ``[N, 1]`` (written by torchrl's estimators). Writes
    the scalar ``loss_value``, in squared reward units.

    Args:
        critic: the trained critic; writes ``state_value`` ``[N, 1]``.
    """

    reads = ("observation", "value_target")
    equation = "L = mean (V(s) - G)^2"

    def __init__(self, *, critic: TensorDictModuleBase) -> None:
        super().__init__()
        self.critic = critic
        self.out_keys = ["loss_value"]

    def forward(self, batch: TensorDict) -> TensorDict:
        """Return the loss, in a new TensorDict."""
        value = self.critic(batch.select("observation"))["state_value"]
        error = (value - batch["value_target"]).square()
        return TensorDict({"loss_value": error.mean()}, batch_size=[])


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
        clip: eps_V, in units of the rewards; null: no clipping.
        value_coef: c_V, weight of the loss.
        reduction: writes ``loss_weight``, once for each objective.
    """

    equation = (
        "loss = {value_coef} sum_k sum_t w_kt max((V_kt - G_kt)^2, (V'_kt - G_kt)^2) / 2, V'_kt = "
        "clip(V_kt, V_old_kt - {clip}, V_old_kt + {clip})"
    )
    keys = {
        "objective_values": ("B T K", "float", "value of each objective, in the order of rewards"),
        "old_objective_values": ("B T K", "float", "objective_values before the update"),
        "objective_returns": ("B T K", "float", "return of each objective, its critic's target"),
        "objective_present": ("B K", "bool", "the row has a reward for the objective"),
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
        prepare = super().prepare  # a comprehension has no zero-argument super
        weights = [prepare(_objective_rows(batch, k))["loss_weight"] for k in range(count)]
        return batch.select().set("objective_loss_weight", torch.stack(weights, 2))

    def forward(self, batch: TensorDict) -> TensorDict:
        """Return the scalar loss of these rows."""
        batch = self.weighted(batch)
        total = batch["objective_loss_weight"].new_zeros(())
        for k in range(batch["objective_returns"].shape[-1]):
            rows = _objective_rows(batch, k)
            rows["value"] = batch["objective_values"][..., k]
            rows["loss_weight"] = batch["objective_loss_weight"][..., k]
            total = total + super().forward(rows)["loss"]
        return scalars(loss=total)


def _objective_rows(batch: TensorDict, k: int) -> TensorDict:
    """Return the batch of one objective, with empty responses in rows that lack it."""
    rows = batch.copy()
    rows["response_mask"] = batch["response_mask"] & batch["objective_present"][:, k, None]
    rows["old_value"] = batch["old_objective_values"][..., k]
    rows["returns"] = batch["objective_returns"][..., k]
    return rows
