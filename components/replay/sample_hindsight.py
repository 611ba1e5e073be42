"""Hindsight experience replay."""

from __future__ import annotations

from typing import ClassVar

import torch
from tensordict import TensorDict
from torch import Tensor

from components.replay.episode_rows import EpisodeRows
from components.replay.extend_goals import ExtendGoals
from components.replay.uniform import UniformReplay
from rlcomp.arguments import PositiveInt, Probability
from rlcomp.component import Component
from rlcomp.errors import ConfigError
from rlcomp.functional.hindsight import future_places
from rlcomp.interfaces.goal_environment import RewardsGoals
from rlcomp.seed import new_generator


class SampleHindsight(Component):
    """Stage that draws steps and gives some of them a goal achieved later in their episode.

    With probability ``fraction`` the goal of a step ``t`` becomes the goal achieved after step
    ``f``, ``f`` uniform in ``t..T-1`` of the episode in the replay. The reward is computed for the
    new goal. (torchrl's ``HERReplayBuffer`` takes goals from other copies, and may take the state
    before a step as its goal.)

    Reads nothing. Writes what :class:`~components.replay.extend_goals.ExtendGoals` stored.

    Args:
        replay: the replay to draw from.
        environment: the environment, for the reward of any goal.
        batch_size: rows per batch (``N``).
        fraction: probability of a new goal; 0: no new goals.
        terminate_on_goal: whether a step that reaches its new goal terminates; for environments
            that end at the goal.

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
                f"{type(environment).__name__} has no reward_of, the reward of another goal: begin "
                "with recipe=her, or draw without hindsight (replay@sample=sample)"
            )
        replay.check_draws(batch_size)
        self.replay = replay
        self.rows = EpisodeRows(replay)
        self.batch_size = batch_size
        self.generator = new_generator()
        # Not a submodule: the environment is a node of its own; only its reward is used here.
        object.__setattr__(self, "environment", environment)
        self.fraction = fraction
        self.terminate_on_goal = terminate_on_goal

    def forward(self, batch: TensorDict) -> TensorDict:
        """Draw the rows and replace the goals of some."""
        drawn = self.rows.draw(self.batch_size, self.generator)
        uniform = torch.rand(2, self.batch_size, generator=self.generator)
        goal = drawn.achieved_after(future_places(drawn.place, drawn.last, uniform[1]))
        return self._asking(drawn.steps, goal, (uniform[0] < self.fraction)[:, None])

    def _asking(self, drawn: TensorDict, goal: Tensor, asks: Tensor) -> TensorDict:
        """Replace the goals, rewards and ends of the marked steps."""
        goal = torch.where(asks, goal, drawn["desired_goal"])
        after = drawn["next"]
        reward = self.environment.reward_of(after["achieved_goal"], goal)[:, None]
        if self.terminate_on_goal:
            there = asks & (goal == after["achieved_goal"]).all(-1, keepdim=True)
            after["terminated"] = after["terminated"] | there
            after["done"] = after["done"] | there
        drawn["desired_goal"], after["desired_goal"] = goal, goal
        after["reward"] = torch.where(asks, reward, after["reward"])
        return drawn
