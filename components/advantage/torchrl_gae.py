"""torchrl's generalised advantage estimation, for control."""

from __future__ import annotations

from tensordict.nn import TensorDictModuleBase
from torchrl.objectives.value import GAE

from rlcomp.arguments import Probability


def torchrl_gae(
    *,
    value_network: TensorDictModuleBase,
    gamma: Probability = 0.99,
    lmbda: Probability = 0.95,
    average_gae: bool = False,
) -> GAE:
    """Return torchrl's estimator with the defaults of this project.

    ``A_t = sum_k (gamma lmbda)^k (r_{t+k} + gamma V(s_{t+k+1}) - V(s_{t+k}))``.

    Args:
        value_network: writes ``state_value`` of an observation.
        gamma: discount of a step.
        lmbda: decay of later temporal differences.
        average_gae: whether advantages are shifted and scaled to mean 0 and variance 1 over the
            batch.

    Source:
        Schulman et al. 2016, arXiv:1506.02438, eq. 16.
    """
    return GAE(value_network=value_network, gamma=gamma, lmbda=lmbda, average_gae=average_gae)
