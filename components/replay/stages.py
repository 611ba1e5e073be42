"""Stages that store steps in a replay and draw batches from it."""

from __future__ import annotations

from typing import ClassVar

import torch
from tensordict import TensorDict

from components.replay.uniform import UniformReplay
from rlcomp.arguments import PositiveInt
from rlcomp.component import Component
from rlcomp.errors import ConfigError, FlowError
from rlcomp.keys import nested
from rlcomp.metrics import record
from rlcomp.seed import new_generator


class Extend(Component):
    """Stage that stores the steps of a batch of any shape and returns the batch.

    It stores the declared entries only; a policy's ``loc`` and ``scale``, for example, are dropped.
    Records ``replay/size``.
    """

    reads: ClassVar[tuple[str, ...]] = (
        *("observation", "action", "next.observation", "next.reward", "next.done"),
        "next.terminated",
    )
    optional: ClassVar[tuple[str, ...]] = (
        *("trajectory", "step_count", "achieved_goal", "desired_goal", "next.achieved_goal"),
        *("expert_action", "intervened"),
    )

    def __init__(self, *, replay: UniformReplay) -> None:
        super().__init__()
        self.replay = replay

    def forward(self, batch: TensorDict) -> TensorDict:
        """Store the steps; return the batch."""
        keys = [nested(key) for key in (*self.reads, *self.optional)]
        self.replay.extend(batch.select(*keys, strict=False).reshape(-1))
        record("replay/size", len(self.replay))
        return batch


class ExtendInterventions(Component):
    """Stage that stores the steps in which the intervener acted and returns the batch.

    The policy's own replay also stores these steps. Without ``intervened`` it stores nothing.

    Args:
        replay: the replay of demonstrations.

    Source:
        Luo et al. 2024, arXiv:2410.21845, section 3.3.
    """

    reads: ClassVar[tuple[str, ...]] = (*Extend.reads,)
    optional: ClassVar[tuple[str, ...]] = (*Extend.optional,)

    def __init__(self, *, replay: UniformReplay) -> None:
        super().__init__()
        self.replay = replay

    def forward(self, batch: TensorDict) -> TensorDict:
        """Store the steps of the intervener, without ``intervened``; return the batch."""
        if "intervened" in batch.keys():
            keys = [nested(key) for key in (*self.reads, *self.optional) if key != "intervened"]
            mask = batch["intervened"].reshape(-1)
            rows = batch.select(*keys, strict=False).reshape(-1)[mask]
            if len(rows):
                self.replay.extend(rows)
        return batch


class ExtendLabelled(Component):
    """Stage that stores observations with an expert's actions and returns the batch.

    Records ``replay/size``, the number of labels so far.

    Args:
        replay: the replay of the observations; in DAgger the union of all rounds.
    """

    reads = ("observation", "expert_action")

    def __init__(self, *, replay: UniformReplay) -> None:
        super().__init__()
        self.replay = replay

    def forward(self, batch: TensorDict) -> TensorDict:
        """Store the observations and the actions; return the batch."""
        self.replay.extend(batch.select(*self.reads).reshape(-1))
        record("replay/size", len(self.replay))
        return batch


class Sample(Component):
    """Stage that draws a new batch of steps from a replay.

    Reads nothing. Writes the keys that :class:`~components.replay.stages.Extend` stored.

    Args:
        replay: the replay to draw from.
        batch_size: rows per batch (``N``).

    Raises:
        ConfigError: the capacity of the replay is smaller than a batch.
        FlowError: the replay holds fewer rows than a batch.
    """

    writes: ClassVar[tuple[str, ...]] = (*Extend.reads,)
    may_write: ClassVar[tuple[str, ...]] = (*Extend.optional, "index", "priority_weight")
    fresh = True

    def __init__(self, *, replay: UniformReplay, batch_size: PositiveInt = 256) -> None:
        super().__init__()
        replay.check_draws(batch_size)
        self.replay = replay
        self.batch_size = batch_size

    def forward(self, batch: TensorDict) -> TensorDict:
        """Return rows of the replay; the incoming batch is ignored."""
        if len(self.replay) < self.batch_size:
            raise FlowError(
                f"the replay holds {len(self.replay)} steps, batch_size is {self.batch_size}: "
                "let it fill first (phases.warm_up.steps), or lower batch_size"
            )
        return self.replay.sample(self.batch_size)


class SampleHalfHalf(Component):
    """Stage that draws half a batch from demonstrations and half from the policy's replay.

    The first half is demonstrations, which repeat if there are few. Records
    ``replay/demonstrations``, the number of their steps.

    Reads nothing. Writes the keys that :class:`~components.replay.stages.Extend` stored in both
    replays.

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
            raise ConfigError(f"batch_size is {batch_size}: must be even, for two halves")
        replay.check_draws(batch_size // 2)
        self.replay = replay
        self.demonstrations = demonstrations
        self.batch_size = batch_size

    def forward(self, batch: TensorDict) -> TensorDict:
        """Return a batch of both halves; the incoming batch is ignored."""
        half = self.batch_size // 2
        if not len(self.demonstrations):
            raise FlowError(
                "there are no demonstrations for half of a batch: collect some first "
                "(phases.demonstrate), or draw from the replay alone (replay@sample=sample)"
            )
        if len(self.replay) < half:
            raise FlowError(
                f"the replay holds {len(self.replay)} steps, half of batch_size is {half}: let it "
                "fill first (collector.num_steps), or lower batch_size"
            )
        record("replay/demonstrations", len(self.demonstrations))
        halves = [self.demonstrations.sample(half), self.replay.sample(half)]
        common = set(halves[0].keys(True, True)) & set(halves[1].keys(True, True))
        rows: TensorDict = torch.cat([part.select(*common) for part in halves])
        return rows


class SampleLabelled(Sample):
    """Stage that draws a new batch of states with an expert's actions.

    Reads nothing. Writes ``observation`` and ``expert_action``.

    Args:
        replay: the replay to draw from.
        batch_size: rows per batch (``N``).

    Raises:
        ConfigError: the capacity of the replay is smaller than a batch.
        FlowError: the replay holds fewer rows than a batch.
    """

    writes: ClassVar[tuple[str, ...]] = (*ExtendLabelled.reads,)
    may_write: ClassVar[tuple[str, ...]] = ()

    def __init__(self, *, replay: UniformReplay, batch_size: PositiveInt = 64) -> None:
        super().__init__(replay=replay, batch_size=batch_size)


class ShuffledRewards(Component):
    """Control that permutes the rewards of the steps, so that they hold no information.

    Reads and writes ``next.reward`` ``[N, 1]``.
    """

    reads = ("next.reward",)
    writes = ("next.reward",)

    def __init__(self) -> None:
        super().__init__()
        self.generator = new_generator()

    def forward(self, batch: TensorDict) -> TensorDict:
        """Permute the rewards in place; return the batch."""
        reward = batch["next", "reward"]
        order = torch.randperm(reward.shape[0], generator=self.generator)
        batch["next", "reward"] = reward[order]
        return batch
