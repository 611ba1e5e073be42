"""Policy-gradient loss composed of ratio, trust region, weights and reduction."""

from __future__ import annotations

import torch
from tensordict import TensorDict
from torch import Tensor, nn

from rlcomp.component import Component
from rlcomp.errors import ConfigError
from rlcomp.functional.reduction import masked
from rlcomp.interfaces.loss import LossPart, TokenLoss, scalars
from rlcomp.metrics import recording


class PolicyLoss(TokenLoss):
    """Policy-gradient loss (PPO, GRPO, DAPO, GSPO, CISPO, ...) composed of parts.

    ``loss = -sum_t w_t * sg[c_t] * l_t`` with the surrogate ``l_t`` (trust region, such as PPO's
    ``min(r_t A_t, clip(r_t) A_t)``), ``c_t`` = ``token_weight`` (product of the weights) and
    ``w_t`` = ``loss_weight`` (reduction).

    An algorithm such as PPO is a choice of parts, not a class. The order is fixed: ratio, trust
    region, weights and filters, reduction. Weights and filters never change the denominator.

    Reads ``response_mask``, ``advantage`` ``[B, T]`` and the keys of the parts. Writes the scalar
    ``loss``.

    Args:
        ratio: writes ``ratio`` from ``log_probs`` and ``old_log_probs``.
        trust_region: writes ``surrogate`` from ``ratio`` and ``advantage``.
        weight: parts by name; each writes ``token_weight``, and their detached product multiplies
            the surrogate. None: no weights.
        reduction: writes ``loss_weight``.

    Raises:
        ConfigError: two parts prepare the same key.

    Source:
        Schulman et al. 2017, arXiv:1707.06347; Shao et al. 2024, arXiv:2402.03300.
    """

    equation = "loss = -sum_t w_t sg[prod c_t] l_t, prod over the weights"
    reads = ("response_mask", "advantage")
    runs = ("reduction", "ratio", "trust_region", "weight")
    contained = True

    def __init__(
        self,
        *,
        ratio: Component,
        trust_region: Component,
        reduction: Component,
        weight: dict[str, Component] | None = None,
    ) -> None:
        super().__init__(reduction=reduction)
        self.ratio = ratio
        self.trust_region = trust_region
        self.weight = nn.ModuleDict(weight or {})
        self._check_step_keys()

    def _check_step_keys(self) -> None:
        """Refuse two parts that prepare the same key."""
        owners: dict[str, str] = {}
        for name, part in self.named_modules():
            for key in part.step_keys if isinstance(part, LossPart) else ():
                if key in owners:
                    raise ConfigError(
                        f"{owners[key]} and {name} both prepare '{key}' for the whole optimiser "
                        "step, and the second would overwrite the first: keep one of them"
                    )
                owners[key] = name

    def prepare(self, batch: TensorDict) -> TensorDict:
        """Return ``loss_weight`` and the parts' statistics over the whole optimiser step."""
        prepared = super().prepare(batch)
        # Drop the metrics of this run of the parts: the forward pass records them again.
        with torch.no_grad(), recording():
            view = _with_detached_advantage(batch).update(prepared)
            if self.needs_full_batch_forward:
                view = self.ratio(view)
            for part in self.parts():
                if part.step_keys:
                    prepared = prepared.update(part.prepare(part.view(view)))
        return prepared

    def gradient_rows(self, batch: TensorDict) -> Tensor | None:
        """Return the rows with a non-zero advantage, or None (all) if a part has its own gradient.

        Without such a part a token's loss is its advantage times a factor, so that a token of
        advantage 0 has no gradient.
        """
        if any(part.has_own_gradient for part in self.parts()):
            return None
        # NaN != 0: a row with NaN is computed, so that the NaN is reported.
        return (masked(batch["advantage"], batch["response_mask"]) != 0).any(1)

    def forward(self, batch: TensorDict) -> TensorDict:
        """Return the scalar loss of these rows."""
        view = self.trust_region(self.ratio(_with_detached_advantage(self.weighted(batch))))
        mask = view["response_mask"]
        surrogate = masked(view["surrogate"], mask)
        for part in self.weight.values():
            surrogate = surrogate * masked(part(view.copy())["token_weight"].detach(), mask)
        return scalars(loss=-(surrogate * view["loss_weight"]).sum())


def _with_detached_advantage(batch: TensorDict) -> TensorDict:
    """Return a copy of the batch with a detached advantage."""
    return batch.copy().set("advantage", batch["advantage"].detach())
