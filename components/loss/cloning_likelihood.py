"""Behaviour cloning by likelihood."""

from __future__ import annotations

from tensordict import TensorDict
from tensordict.nn import ProbabilisticTensorDictSequential

from rlcomp.component import Component


class CloningLikelihood(Component):
    """Behaviour cloning of a stochastic policy: ``L = -mean_N log pi(a* | s)``.

    The log-prob of an action is the sum over its components. (torchrl's ``BCLoss`` averages over
    them unless the distribution declares them as one event.)

    Reads ``observation`` and ``expert_action``. Writes the scalar ``loss_cloning``, in nats.

    Args:
        policy: the trained policy, e.g. a squashed Gaussian.
    """

    reads = ("observation", "expert_action")
    equation = "L = -mean_N log pi(a* | s)"

    def __init__(self, *, policy: ProbabilisticTensorDictSequential) -> None:
        super().__init__()
        self.policy = policy
        self.out_keys = ["loss_cloning"]

    def forward(self, batch: TensorDict) -> TensorDict:
        """Return the loss, in a new TensorDict."""
        log_prob = self.policy.get_dist(batch.select("observation")).log_prob(
            batch["expert_action"]
        )
        of_action = log_prob.reshape(batch.shape[0], -1).sum(-1)
        return TensorDict({"loss_cloning": -of_action.mean()}, batch_size=[])
