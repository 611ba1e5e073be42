"""Storage of an intervener's steps with the demonstrations."""

from __future__ import annotations

from typing import ClassVar

from tensordict import TensorDict

from components.replay.extend import Extend
from components.replay.uniform import UniformReplay
from rlcomp.component import Component
from rlcomp.keys import nested


class ExtendInterventions(Component):
    """Stage that stores the steps in which the intervener acted and returns the batch.

    The policy's own replay has these steps as well. Without an intervener there is no
    ``intervened``, and nothing is stored.

    Args:
        replay: the demonstrations.

    Source:
        Luo et al. 2024, arXiv:2410.21845, section 3.3.
    """

    reads: ClassVar[tuple[str, ...]] = (*Extend.reads,)
    optional: ClassVar[tuple[str, ...]] = (*Extend.optional,)

    def __init__(self, *, replay: UniformReplay) -> None:
        super().__init__()
        self.replay = replay

    def forward(self, batch: TensorDict) -> TensorDict:
        """Store those steps like demonstrations, without the flag."""
        if "intervened" in batch.keys():
            keys = [nested(key) for key in (*self.reads, *self.optional) if key != "intervened"]
            over = batch["intervened"].reshape(-1)
            rows = batch.select(*keys, strict=False).reshape(-1)[over]
            if len(rows):
                self.replay.extend(rows)
        return batch
