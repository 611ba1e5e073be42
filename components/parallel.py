"""Parallel strategies of several ranks."""

from __future__ import annotations

from torch import nn
from torch.distributed.device_mesh import init_device_mesh

from rlcomp.arguments import Checked, PositiveFloat, PositiveInt
from rlcomp.errors import ConfigError
from rlcomp.parallel.ranks import current_ranks
from rlcomp.parallel.sharded import ShardedWeights, check_sharded
from rlcomp.parallel.weights import ReplicatedWeights


class Hybrid(metaclass=Checked):
    """Hybrid sharded weights (HSDP): several copies, each sharded over ``parts`` ranks.

    Works like :class:`components.parallel.Shard`, but layers are gathered within ``parts``
    neighbouring ranks, such as those of one machine. Copies exchange only gradients.

    Args:
        parts: ranks that share a copy; divides the number of ranks.
        timeout: seconds that a rank waits for the others; must exceed the duration of rank 0's
            rollouts.

    Raises:
        ConfigError: ``parts`` does not divide the number of ranks; or as for
            :class:`components.parallel.Shard`.

    Source:
        Zhao et al. 2023, arXiv:2304.11277, section 3.2.2.
    """

    def __init__(self, *, parts: PositiveInt, timeout: PositiveFloat = 600.0) -> None:
        self.parts = parts
        self.timeout = timeout

    def weights(self, module: nn.Module) -> ShardedWeights:
        """Return the weights of a trained model."""
        check_sharded(module)
        ranks = current_ranks()
        copies, remainder = divmod(ranks.size, self.parts)
        if remainder:
            raise ConfigError(
                f"parallel.parts is {self.parts}, which does not divide {ranks.size} ranks: set "
                "parallel.parts to the GPUs of a machine, or use parallel=shard"
            )
        names = ("copies", "parts")
        mesh = init_device_mesh(ranks.device.type, (copies, self.parts), mesh_dim_names=names)
        return ShardedWeights(module, mesh)


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

    def weights(self, module: nn.Module) -> ReplicatedWeights:
        """Return the weights of a trained model."""
        return ReplicatedWeights(module)


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

    def weights(self, module: nn.Module) -> ShardedWeights:
        """Return the weights of a trained model."""
        check_sharded(module)
        ranks = current_ranks()
        return ShardedWeights(module, init_device_mesh(ranks.device.type, (ranks.size,)))
