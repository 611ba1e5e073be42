"""The natural-gradient learner of TRPO: a step within a ball of KL divergence."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from tensordict import TensorDict
from tensordict.nn import ProbabilisticTensorDictSequential
from torch import Tensor
from torch.distributions import Distribution, kl_divergence

from rlcomp.arguments import Fraction, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt
from rlcomp.component import Component
from rlcomp.functional.gradients import assign, conjugate_gradient, fisher_product, flat
from rlcomp.functional.moments import whiten
from rlcomp.metrics import record


class _Measured(NamedTuple):
    """Of a policy on a batch, with graph."""

    surrogate: Tensor
    kl: Tensor


class NaturalGradientLearner(Component):
    """Trust-region policy optimisation: one natural-gradient step a batch, never beyond ``max_kl``.

    ``x = F^-1 g`` by conjugate gradient, ``g`` the gradient of the surrogate
    ``mean (pi / pi_old) A`` at the old weights; the step ``sqrt(2 delta / x'Fx) x`` is shrunk until
    the surrogate rose and the KL from the old policy is at most ``delta``. If it never is, the
    weights stay, to the bit.

    Records ``trust_region/kl``, ``trust_region/surrogate_gain`` and ``trust_region/shrinks`` (the
    number of times a step was shrunk; -1: no step).

    The batch is that of the present policy, whose log-probs are computed again.

    Reads ``observation``, ``action`` and torchrl's ``advantage`` ``[N, T, 1]``. Writes nothing.

    Args:
        policy: torchrl's actor over a distribution whose KL is known.
        max_kl: ``delta``, mean KL over the states, nats.
        damping: added to the diagonal of the Fisher matrix.
        iterations: of conjugate gradient.
        shrink: factor of each shrinking, in (0, 1).
        max_shrinks: give up after so many.

    Source:
        Schulman et al. 2015, arXiv:1502.05477, section 6 and appendix C.
    """

    reads = ("observation", "action")

    def __init__(
        self,
        *,
        policy: ProbabilisticTensorDictSequential,
        max_kl: PositiveFloat = 0.01,
        damping: NonNegativeFloat = 0.1,
        iterations: PositiveInt = 10,
        shrink: Fraction = 0.8,
        max_shrinks: NonNegativeInt = 10,
    ) -> None:
        super().__init__()
        self.policy = policy
        self.max_kl = max_kl
        self.damping = damping
        self.iterations = iterations
        self.shrink = shrink
        self.max_shrinks = max_shrinks
        self.trained = [weight for weight in policy.parameters() if weight.requires_grad]

    @torch.enable_grad()
    def forward(self, batch: TensorDict) -> TensorDict:
        """Take the step."""
        rows = batch.reshape(-1)
        with torch.no_grad():
            old = self.policy.get_dist(rows.select("observation"))
        measure = self._measuring(rows, old)
        now = measure()
        slope = flat(torch.autograd.grad(now.surrogate, self.trained, retain_graph=True))
        product = fisher_product(now.kl, self.trained, self.damping)
        direction = conjugate_gradient(product, slope.detach(), self.iterations)
        curvature = float(direction.dot(product(direction)))
        if curvature > 0:  # else there is no gradient
            self._search((2 * self.max_kl / curvature) ** 0.5 * direction, now, measure)
        return batch

    def _measuring(self, rows: TensorDict, old: Distribution) -> Callable[[], _Measured]:
        """Measures the present policy on the batch, against the old one."""
        advantage = rows["advantage"].reshape(1, -1)
        advantage = whiten(advantage, torch.ones_like(advantage, dtype=torch.bool))[0]
        behaviour = old.log_prob(rows["action"])

        def measure() -> _Measured:
            now = self.policy.get_dist(rows.select("observation"))
            ratio = (now.log_prob(rows["action"]) - behaviour).exp()
            return _Measured((ratio * advantage).mean(), kl_divergence(old, now).mean())

        return measure

    @torch.no_grad()
    def _search(self, step: Tensor, before: _Measured, measure: Callable[[], _Measured]) -> None:
        start = flat(self.trained).clone()
        for shrinks in range(self.max_shrinks + 1):
            assign(self.trained, start + self.shrink**shrinks * step)
            after = measure()
            gain = after.surrogate - before.surrogate
            if float(gain) > 0 and float(after.kl) <= self.max_kl:
                record("trust_region/kl", after.kl)
                record("trust_region/surrogate_gain", gain)
                record("trust_region/shrinks", shrinks)
                return
        assign(self.trained, start)
        record("trust_region/shrinks", -1)
