"""Fully sharded data parallelism: a part of the weights on every rank."""

from __future__ import annotations

from torch import nn
from torch.distributed.device_mesh import init_device_mesh

from rlcomp.arguments import Checked, PositiveFloat
from rlcomp.parallel.ranks import here
from rlcomp.parallel.sharded import Sharded, check_sharded


class Shard(metaclass=Checked):
    """Sharded weights, gradients and moments (ZeRO-3, FSDP2); layers are gathered for use.

    Ranks share the rows of every pass. Each holds its rows of every matrix, of its gradient and of
    its moments. Rank 0 also has the whole weights, for generation, copies and checkpoints.

    Args:
        timeout: seconds that a rank waits for the others; must exceed the duration of rank 0's
            rollouts.

    Raises:
        ConfigError: a model has adapters, or transformers names no layers of it.

    Source:
        Rajbhandari et al. 2020, arXiv:1910.02054 (stage 3); Zhao et al. 2023, arXiv:2304.11277.
    """

    def __init__(self, *, timeout: PositiveFloat = 600.0) -> None:
        self.timeout = timeout

    def weights(self, module: nn.Module) -> Sharded:
        """Return the weights of a trained model."""
        check_sharded(module)
        return Sharded(module, init_device_mesh(here().device.type, (here().size,)))
