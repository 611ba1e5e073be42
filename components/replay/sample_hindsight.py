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
    """A batch of steps, some of which ask for what was achieved later in their own episode.

    With probability ``fraction`` the goal of a step ``t`` becomes what was achieved after step
    ``f``, ``f`` uniform in ``t..T-1`` of what the replay holds of the episode; its reward is that
    of the new goal. (torchrl's ``HERReplayBuffer`` takes goals from other copies, and the state
    that a step starts from as its goal.)

    Reads nothing. Writes what :class:`~components.replay.extend_goals.ExtendGoals` stored.

    Args:
        replay: what is drawn from.
        environment: knows the reward of any goal.
        batch_size: rows per batch (``N``).
        fraction: probability of a new goal; 0: none.
        terminate_on_goal: a step that reaches its new goal terminates; for environments that end
            there.

    Raises:
        ConfigError: the environment has no goals, or the replay never holds so many rows.
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
        # Past nn.Module: it is a node of its own, and only its reward is asked for.
        object.__setattr__(self, "environment", environment)
        self.fraction = fraction
        self.terminate_on_goal = terminate_on_goal

    def forward(self, batch: TensorDict) -> TensorDict:
        """Draw the rows; give some of them another goal."""
        drawn = self.rows.draw(self.batch_size, self.generator)
        uniform = torch.rand(2, self.batch_size, generator=self.generator)
        goal = drawn.achieved_after(future_places(drawn.place, drawn.last, uniform[1]))
        return self._asking(drawn.steps, goal, (uniform[0] < self.fraction)[:, None])

    def _asking(self, drawn: TensorDict, goal: Tensor, asks: Tensor) -> TensorDict:
        """Steps that ask for another goal where they are told to."""
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
