"""Stages that store steps in a replay."""

from __future__ import annotations

from typing import ClassVar

from tensordict import TensorDict

from components.replay.uniform import UniformReplay
from rlcomp.component import Component
from rlcomp.keys import nested
from rlcomp.metrics import record


class Extend(Component):
    """Stage that stores the steps of a batch of any shape and returns the batch.

    It stores only the entries that it declares, and not, for example, a policy's ``loc`` and
    ``scale``. Records ``replay/size``.

    Args:
        replay: the replay that stores the steps.
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


class ExtendGoals(Extend):
    """Stage that stores steps with their goals and episodes and returns the batch.

    Records ``replay/size``.

    Args:
        replay: the replay that stores the steps.
    """

    reads: ClassVar[tuple[str, ...]] = (
        *("observation", "action", "next.observation", "next.reward", "next.done"),
        *("next.terminated", "desired_goal", "next.desired_goal", "next.achieved_goal"),
        *("trajectory", "step_count"),
    )
    optional: ClassVar[tuple[str, ...]] = ()


class ExtendInterventions(Component):
    """Stage that stores the steps in which the intervener acted and returns the batch.

    The policy's own replay also stores these steps. A batch without ``intervened``, which has no
    intervener, stores nothing.

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
        replay: the replay that stores the observations; in DAgger the union of all rounds.
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
