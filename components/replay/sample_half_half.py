"""Symmetric sampling of RLPD: one half of each batch is demonstrations."""

from __future__ import annotations

from typing import ClassVar

import torch
from tensordict import TensorDict

from components.replay.extend import Extend
from components.replay.uniform import UniformReplay
from rlcomp.arguments import PositiveInt
from rlcomp.component import Component
from rlcomp.errors import ConfigError, FlowError
from rlcomp.metrics import record


class SampleHalfHalf(Component):
    """Stage that draws half a batch from demonstrations and half from the policy's replay.

    The first half is demonstrations, even if there are few. Records ``replay/demonstrations``, the
    number of their steps.

    Reads nothing. Writes what :class:`~components.replay.extend.Extend` stored in both.

    Args:
        replay: the replay of the policy's own steps.
        demonstrations: the replay of an expert's steps and of interventions.
        batch_size: rows per batch (``N``), even.

    Raises:
        ConfigError: ``batch_size`` is odd, or half of it exceeds the replay's capacity.
        FlowError: there are no demonstrations, or fewer own steps than half a batch.

    Source:
        Ball et al. 2023, arXiv:2302.02948, section 4.1 ("symmetric sampling").
    """

    writes: ClassVar[tuple[str, ...]] = (*Extend.reads,)
    may_write: ClassVar[tuple[str, ...]] = (*Extend.optional,)
    fresh = True

    def __init__(
        self, *, replay: UniformReplay, demonstrations: UniformReplay, batch_size: PositiveInt = 256
    ) -> None:
        super().__init__()
        if batch_size % 2:
            raise ConfigError(f"batch_size is {batch_size}: two halves need an even number")
        replay.check_draws(batch_size // 2)
        self.replay = replay
        self.demonstrations = demonstrations
        self.batch_size = batch_size

    def forward(self, batch: TensorDict) -> TensorDict:
        """Draw both halves."""
        half = self.batch_size // 2
        if not len(self.demonstrations):
            raise FlowError(
                "there are no demonstrations to draw half of a batch from: collect some first "
                "(phases.demonstrate), or draw from the replay alone (replay@sample=sample)"
            )
        if len(self.replay) < half:
            raise FlowError(
                f"the replay holds {len(self.replay)} steps, half of batch_size is {half}: let it "
                "fill first (collector.num_steps), or lower batch_size"
            )
        record("replay/demonstrations", len(self.demonstrations))
        halves = [self.demonstrations.sample(half), self.replay.sample(half)]
        shared = set(halves[0].keys(True, True)) & set(halves[1].keys(True, True))
        drawn: TensorDict = torch.cat([rows.select(*shared) for rows in halves])
        return drawn
