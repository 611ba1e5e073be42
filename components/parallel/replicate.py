"""Data parallelism: whole weights on every rank."""

from __future__ import annotations

from torch import nn

from rlcomp.arguments import Checked, PositiveFloat
from rlcomp.parallel.weights import Replicated


class Replicate(metaclass=Checked):
    """Replicated weights: ranks share the rows of a pass and sum their gradients once per step.

    Every rank holds all weights and moments and takes the same step. It works with every model,
    optimiser and adapter that one process can train.

    Args:
        timeout: seconds that a rank waits for the others; must exceed the duration of rank 0's
            rollouts.

    Source:
        Li et al. 2020, arXiv:2006.15704. (There gradients are averaged. Here losses are shares of
        the whole step, so that gradients are summed.)
    """

    def __init__(self, *, timeout: PositiveFloat = 600.0) -> None:
        self.timeout = timeout

    def weights(self, module: nn.Module) -> Replicated:
        """Return the weights of a trained model."""
        return Replicated(module)
