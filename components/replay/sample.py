"""Stages that sample from a replay buffer."""

from __future__ import annotations

from typing import Annotated, ClassVar

import torch
from annotated_types import Interval
from tensordict import TensorDict
from torch import Tensor

from components.replay.episode_rows import EpisodeRows
from components.replay.extend import Extend, ExtendGoals, ExtendLabelled
from components.replay.uniform import UniformReplay
from rlcomp.arguments import PositiveInt, Probability
from rlcomp.component import Component
from rlcomp.errors import ConfigError, FlowError
from rlcomp.functional.goal_conditioned import future_positions, geometric_positions
from rlcomp.interfaces.batched_environment import RewardsGoals
from rlcomp.metrics import record
from rlcomp.seed import new_generator


class Sample(Component):
    """Stage that draws a new batch of steps from a replay.

    Reads nothing. Writes the keys that :class:`~components.replay.extend.Extend` stored.

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
        """Return drawn rows; the incoming batch is ignored."""
        if len(self.replay) < self.batch_size:
            raise FlowError(
                f"the replay holds {len(self.replay)} steps, batch_size is {self.batch_size}: "
                "let it fill first (phases.warm_up.steps), or lower batch_size"
            )
        return self.replay.sample(self.batch_size)


class SampleFuture(Component):
    """Stage that draws steps with goals that their own episode achieved later.

    The goal of a step is the goal achieved ``k`` steps later in its episode, with the probability
    ``p(k) ~ gamma^(k - 1)``, ``k >= 1``. For a contrastive critic a step and its goal are a
    positive pair, and a step and the goal of another row a negative pair.

    Reads nothing. Writes ``observation``, ``action`` and ``desired_goal``.

    Args:
        replay: the replay to draw from.
        batch_size: rows per batch (``N``).
        gamma: discount, in (0, 1).

    Raises:
        ConfigError: the capacity of the replay is smaller than a batch.
        FlowError: the replay holds fewer rows than a batch.

    Source:
        Eysenbach et al. 2022, arXiv:2206.07568, section 4.1.
    """

    writes = ("observation", "action", "desired_goal")
    fresh = True

    def __init__(
        self,
        *,
        replay: UniformReplay,
        batch_size: PositiveInt = 256,
        gamma: Annotated[float, Interval(gt=0, lt=1)] = 0.99,
    ) -> None:
        super().__init__()
        replay.check_draws(batch_size)
        self.replay = replay
        self.rows = EpisodeRows(replay)
        self.batch_size = batch_size
        self.generator = new_generator()
        self.gamma = gamma

    def forward(self, batch: TensorDict) -> TensorDict:
        """Return drawn rows with their goals; the incoming batch is ignored."""
        drawn = self.rows.draw(self.batch_size, self.generator)
        uniform = torch.rand(self.batch_size, generator=self.generator)
        later = geometric_positions(drawn.place, drawn.last, uniform, self.gamma)
        rows = drawn.steps.select("observation", "action")
        rows["desired_goal"] = drawn.achieved_after(later)
        return rows


class SampleHalfHalf(Component):
    """Stage that draws half a batch from demonstrations and half from the policy's replay.

    The first half is demonstrations, which repeat if there are few. Records
    ``replay/demonstrations``, the number of their steps.

    Reads nothing. Writes the keys that :class:`~components.replay.extend.Extend` stored in both
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


class SampleHindsight(Component):
    """Stage that draws steps and gives some of them a goal achieved later in their episode.

    With probability ``fraction`` the goal of step ``t`` becomes the goal achieved after step ``f``,
    with ``f`` uniform in ``t, ..., T - 1`` and ``T`` the number of the episode's steps. The reward
    is computed for the new goal. (torchrl's ``HERReplayBuffer`` also takes goals from other
    environment copies, and may take the state before a step as its goal.)

    Reads nothing. Writes the keys that :class:`~components.replay.extend.ExtendGoals` stored.

    Args:
        replay: the replay to draw from.
        environment: the environment, which computes the reward for any goal.
        batch_size: rows per batch (``N``).
        fraction: probability of a new goal; 0: no new goals.
        terminate_on_goal: whether a step that reaches its new goal terminates; for environments
            that terminate at the goal.

    Raises:
        ConfigError: the environment has no goals, or the capacity of the replay is smaller than a
            batch.
        FlowError: the replay holds fewer rows, or rows without goals.

    Source:
        Andrychowicz et al. 2017, arXiv:1707.01495, algorithm 1.
    """

    writes: ClassVar[tuple[str, ...]] = (*ExtendGoals.reads,)
    fresh = True

    def __init__(
        self,
        *,
        replay: UniformReplay,
        environment: RewardsGoals,
        batch_size: PositiveInt = 256,
        fraction: Probability = 0.8,
        terminate_on_goal: bool = False,
    ) -> None:
        super().__init__()
        if not isinstance(environment, RewardsGoals):
            raise ConfigError(
                f"{type(environment).__name__} has no method reward_of for the reward of a goal: "
                "begin with recipe=her, or draw without hindsight (replay@sample=sample)"
            )
        replay.check_draws(batch_size)
        self.replay = replay
        self.rows = EpisodeRows(replay)
        self.batch_size = batch_size
        self.generator = new_generator()
        # Bypass nn.Module, because the environment is another node's submodule.
        object.__setattr__(self, "environment", environment)
        self.fraction = fraction
        self.terminate_on_goal = terminate_on_goal

    def forward(self, batch: TensorDict) -> TensorDict:
        """Return drawn rows, some with new goals; the incoming batch is ignored."""
        drawn = self.rows.draw(self.batch_size, self.generator)
        uniform = torch.rand(2, self.batch_size, generator=self.generator)
        goal = drawn.achieved_after(future_positions(drawn.place, drawn.last, uniform[1]))
        return self._replace_goals(drawn.steps, goal, (uniform[0] < self.fraction)[:, None])

    def _replace_goals(self, steps: TensorDict, goal: Tensor, mask: Tensor) -> TensorDict:
        """Replace goals, rewards and ends of the steps in the mask ``[N, 1]``; return the steps."""
        goal = torch.where(mask, goal, steps["desired_goal"])
        after = steps["next"]
        reward = self.environment.reward_of(after["achieved_goal"], goal)[:, None]
        if self.terminate_on_goal:
            reached = mask & (goal == after["achieved_goal"]).all(-1, keepdim=True)
            after["terminated"] = after["terminated"] | reached
            after["done"] = after["done"] | reached
        steps["desired_goal"], after["desired_goal"] = goal, goal
        after["reward"] = torch.where(mask, reward, after["reward"])
        return steps


class SampleLabelled(Sample):
    """Stage that draws a new batch of states with an expert's actions.

    Reads nothing. Writes ``observation`` and ``expert_action``.

    Args:
        replay: the replay to draw from.
        batch_size: rows per batch (``N``).

    Raises:
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
