"""A penalty on the distance to the old policy, in place of a clip."""

from __future__ import annotations

import torch
from tensordict import TensorDict

from rlcomp.arguments import NonNegativeFloat, PositiveFloat
from rlcomp.errors import ConfigError
from rlcomp.functional.kl_coefficient import doubled_kl_coef
from rlcomp.functional.ratio_distance import old_policy_kl
from rlcomp.functional.surrogate import emptied
from rlcomp.interfaces.loss import Part
from rlcomp.metrics import record


class KLPenalty(Part):
    """``ratio * advantage - kl_coef * KL(pi_old || pi)``, TRPO's problem in Lagrangian form.

    The KL of a token is ``ratio - 1 - log ratio``: for samples of the old policy both its value and
    its gradient are right on average. Adaptive, its coefficient is doubled after an optimiser step
    whose mean KL per token was above 1.5 targets, and halved below 1 / 1.5 of it. The KL is that
    before the step: steps at the old policy itself (the first of a batch) change nothing, so it
    takes several a batch to adapt. The coefficient stays between 1e-8 and 1e8.

    Reads ``ratio``, ``advantage``, ``response_mask`` ``[B, T]``. Writes ``surrogate`` ``[B, T]``.

    Args:
        kl_coef: weight of the KL, to begin with; in units of advantage per nat.
        target: mean KL per token of a step, nats.
        adaptive: whether the weight moves.

    Raises:
        ConfigError: it is adaptive and starts at 0.

    Source:
        Schulman et al. 2017, arXiv:1707.06347, eq. 8 and section 4.
    """

    reads = ("ratio", "advantage", "response_mask")
    writes = ("surrogate",)
    penalises = True
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
        ratio, advantage = emptied(batch["ratio"], batch["advantage"], mask)
        kl = old_policy_kl(ratio)
        batch["surrogate"] = ratio * advantage - self.coefficient * kl
        self.kl_sum += float(kl.detach().double().sum())
        self.tokens += int(mask.sum())
        record("trust_region/kl", kl, where=mask)
        return batch

    def after_step(self) -> None:
        """Move the coefficient by what the step's micro-batches have seen together."""
        coefficient = float(self.coefficient)
        record("trust_region/kl_coef", coefficient)
        if self.adaptive and self.tokens:
            kl = self.kl_sum / self.tokens
            self.coefficient.fill_(doubled_kl_coef(coefficient, kl, target=self.target))
        self.kl_sum, self.tokens = 0.0, 0
