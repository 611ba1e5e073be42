"""Hybrid sharding: replicated groups of ranks with sharded weights within each."""

from __future__ import annotations

from torch import nn
from torch.distributed.device_mesh import init_device_mesh

from rlcomp.arguments import Checked, PositiveFloat, PositiveInt
from rlcomp.errors import ConfigError
from rlcomp.parallel.ranks import here
from rlcomp.parallel.sharded import Sharded, check_sharded


class Hybrid(metaclass=Checked):
    """Hybrid sharded weights (HSDP): several copies, each sharded over ``parts`` ranks.

    Works like :class:`components.parallel.shard.Shard`, but layers are gathered within ``parts``
    neighbouring ranks, such as those of one machine. Copies exchange only gradients.

    Args:
        parts: ranks that share a copy; divides the number of ranks.
        timeout: seconds that a rank waits for the others; must exceed the duration of rank 0's
            rollouts.

    Raises:
        ConfigError: ``parts`` does not divide the number of ranks; or as for
            :class:`components.parallel.shard.Shard`.

    Source:
        Zhao et al. 2023, arXiv:2304.11277, section 3.2.2.
    """

    def __init__(self, *, parts: PositiveInt, timeout: PositiveFloat = 600.0) -> None:
        self.parts = parts
        self.timeout = timeout

    def weights(self, module: nn.Module) -> Sharded:
        """Return the weights of a trained model."""
        check_sharded(module)
        copies, left = divmod(here().size, self.parts)
        if left:
            raise ConfigError(
                f"parallel.parts is {self.parts}, which does not divide {here().size} ranks: set "
                "parallel.parts to the GPUs of a machine, or use parallel=shard"
            )
        names = ("copies", "parts")
        mesh = init_device_mesh(here().device.type, (copies, self.parts), mesh_dim_names=names)
        return Sharded(module, mesh)
