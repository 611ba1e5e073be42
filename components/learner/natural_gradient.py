"""Natural-gradient learner of TRPO, whose step is bounded in KL divergence."""

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


class _PolicyMeasures(NamedTuple):
    """Surrogate and KL divergence of a policy on a batch, scalars with a graph.

    Attributes:
        surrogate: ``mean (pi / pi_old) A``.
        kl: ``mean KL(pi_old || pi)`` over the states.
    """

    surrogate: Tensor
    kl: Tensor


class NaturalGradientLearner(Component):
    """Trust-region policy optimisation: one natural-gradient step a batch, within ``max_kl``.

    ``x = F^-1 g`` by conjugate gradient, with ``g`` the gradient of the surrogate
    ``mean (pi / pi_old) A`` at the old weights and ``F`` the Fisher matrix of the policy there. The
    first candidate step is ``sqrt(2 delta / x'Fx) x``. It is shrunk until the surrogate is higher
    and the KL divergence from the old policy is at most ``delta``. If no shrunk step is valid, the
    weights stay unchanged, to the bit.

    ``pi`` is the policy, ``pi_old`` the policy before the step, and ``A`` the whitened advantage.

    Records ``trust_region/shrinks``, the number of times that the step was shrunk (-1: no valid
    step), and of a step that is taken ``trust_region/kl`` and ``trust_region/surrogate_gain``. A
    gradient of 0 gives no step and no metrics.

    The current policy must have sampled the batch; the log-probs of ``pi_old`` are computed anew.

    Reads ``observation``, ``action`` and torchrl's ``advantage`` ``[N, T, 1]``. Writes nothing.

    Args:
        policy: torchrl's actor, whose distribution must have a registered KL divergence.
        max_kl: ``delta``, largest mean KL divergence over the states, in nats.
        damping: number that is added to the diagonal of ``F``.
        iterations: iterations of conjugate gradient.
        shrink: factor of each shrinking, in [0, 1).
        max_shrinks: largest number of times that a step is shrunk.

    Source:
        Schulman et al. 2015, arXiv:1502.05477, section 6 and appendix C.
    """

    # torchrl's advantage has another shape than the key of this project: it is not declared.
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
        """Take the step; return the batch unchanged."""
        rows = batch.reshape(-1)
        with torch.no_grad():
            old = self.policy.get_dist(rows.select("observation"))
        measure = self._measure_function(rows, old)
        before = measure()
        gradient = flat(torch.autograd.grad(before.surrogate, self.trained, retain_graph=True))
        product = fisher_product(before.kl, self.trained, self.damping)
        direction = conjugate_gradient(product, gradient.detach(), self.iterations)
        curvature = float(direction.dot(product(direction)))
        if curvature > 0:  # It is 0 if the gradient is 0.
            step = (2 * self.max_kl / curvature) ** 0.5 * direction
            self._line_search(step, before, measure)
        return batch

    def _measure_function(
        self, rows: TensorDict, old: Distribution
    ) -> Callable[[], _PolicyMeasures]:
        """Return a function that measures the current policy on the rows."""
        advantage = rows["advantage"].reshape(1, -1)
        advantage = whiten(advantage, torch.ones_like(advantage, dtype=torch.bool))[0]
        old_log_probs = old.log_prob(rows["action"])

        def measure() -> _PolicyMeasures:
            current = self.policy.get_dist(rows.select("observation"))
            ratio = (current.log_prob(rows["action"]) - old_log_probs).exp()
            return _PolicyMeasures((ratio * advantage).mean(), kl_divergence(old, current).mean())

        return measure

    @torch.no_grad()
    def _line_search(
        self, step: Tensor, before: _PolicyMeasures, measure: Callable[[], _PolicyMeasures]
    ) -> None:
        """Take the first valid step of the shrunk ones, or leave the weights unchanged."""
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
