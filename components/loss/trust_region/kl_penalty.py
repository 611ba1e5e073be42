"""PPO-penalty: KL penalty to the old policy instead of clipping."""

from __future__ import annotations

import torch
from tensordict import TensorDict

from rlcomp.arguments import NonNegativeFloat, PositiveFloat
from rlcomp.errors import ConfigError
from rlcomp.functional.kl_coefficient import doubling_kl_coef
from rlcomp.functional.ratio_distance import old_policy_kl
from rlcomp.functional.surrogate import neutral_outside
from rlcomp.interfaces.loss import Part
from rlcomp.metrics import record


class KLPenalty(Part):
    """PPO-penalty: surrogate with an (adaptive) KL penalty to the old policy.

    ``l_t = r_t A_t - beta * (r_t - 1 - log r_t)``; the bracket is the k3 estimate of
    ``KL(pi_old || pi)``, unbiased in value and gradient on samples of ``pi_old``.

    Adaptive: after each optimiser step with mean KL per token ``d``, ``beta <- 2 beta`` if
    ``d > 1.5 d_target`` and ``beta <- beta / 2`` if ``d < d_target / 1.5``, within [1e-8, 1e8].
    ``d`` is measured before the step, so it is 0 in the first step on a batch: adaptation needs
    several optimiser steps per batch.

    Reads ``ratio``, ``advantage``, ``response_mask`` ``[B, T]``. Writes ``surrogate`` ``[B, T]``.

    Args:
        kl_coef: (initial) beta, in units of advantage per nat.
        target: d_target, mean KL per token of a step, in nats.
        adaptive: whether beta is updated.

    Raises:
        ConfigError: it is adaptive and starts at 0.

    Source:
        Schulman et al. 2017, arXiv:1707.06347, eq. 8 and section 4.
    """

    equation = (
        "l_t = r_t A_t - beta (r_t - 1 - log r_t), beta from {kl_coef}, target {target}, "
        "adaptive {adaptive}"
    )
    reads = ("ratio", "advantage", "response_mask")
    writes = ("surrogate",)
    has_own_gradient = True
    coefficient: torch.Tensor

    def __init__(
        self,
        *,
        kl_coef: NonNegativeFloat = 1.0,
        target: PositiveFloat = 0.01,
        adaptive: bool = True,
    ) -> None:
        super().__init__()
        if adaptive and kl_coef == 0:
            raise ConfigError(
                "kl_coef is 0 and adaptive is true, but twice nothing is nothing: set kl_coef "
                "above 0, or adaptive=false"
            )
        self.kl_coef = kl_coef
        self.target = target
        self.adaptive = adaptive
        self.register_buffer("coefficient", torch.tensor(float(kl_coef)))
        self.kl_sum, self.tokens = 0.0, 0

    def forward(self, batch: TensorDict) -> TensorDict:
        """Write the surrogate."""
        mask = batch["response_mask"]
        ratio, advantage = neutral_outside(batch["ratio"], batch["advantage"], mask)
        kl = old_policy_kl(ratio)
        batch["surrogate"] = ratio * advantage - self.coefficient * kl
        self.kl_sum += float(kl.detach().double().sum())
        self.tokens += int(mask.sum())
        record("trust_region/kl", kl, where=mask)
        return batch

    def after_step(self) -> None:
        """Update the coefficient from the mean KL over the step's micro-batches."""
        coefficient = float(self.coefficient)
        record("trust_region/kl_coef", coefficient)
        if self.adaptive and self.tokens:
            kl = self.kl_sum / self.tokens
            self.coefficient.fill_(doubling_kl_coef(coefficient, kl, target=self.target))
        self.kl_sum, self.tokens = 0.0, 0
