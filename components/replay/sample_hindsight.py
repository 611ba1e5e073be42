"""Hindsight experience replay."""

from __future__ import annotations

from typing import ClassVar

import torch
from tensordict import TensorDict
from torch import Tensor

from components.replay.extend_goals import ExtendGoals
from components.replay.uniform import UniformReplay
from rlcomp.arguments import PositiveInt, Probability
from rlcomp.component import Component
from rlcomp.errors import FlowError
from rlcomp.functional.hindsight import episode_order, future_places
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
        FlowError: the replay holds fewer rows.

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
        batch_size: PositiveInt,
        fraction: Probability,
        terminate_on_goal: bool,
    ) -> None:
        super().__init__()
        self.replay = replay
        # Past nn.Module: it is a node of its own, and only its reward is asked for.
        object.__setattr__(self, "environment", environment)
        self.batch_size = batch_size
        self.fraction = fraction
        self.terminate_on_goal = terminate_on_goal
        self.generator = new_generator()
        self._order: tuple[int, Tensor, Tensor] | None = None

    def forward(self, batch: TensorDict) -> TensorDict:
        """Draw the rows; give some of them another goal."""
        rows = self.replay.stored()
        held = len(self.replay)
        if rows is None or held < self.batch_size:
            raise FlowError(
                f"the replay holds {held} steps, batch_size is {self.batch_size}: let it fill "
                "first (phases.warm_up.steps), or lower batch_size"
            )
        order, last = self._episodes(rows)
        place = torch.randint(held, (self.batch_size,), generator=self.generator)
        drawn = rows[order[place]]
        uniform = torch.rand(2, self.batch_size, generator=self.generator)
        later = order[future_places(place, last[place], uniform[1])]
        goal = rows["next", "achieved_goal"][later]
        return self._asking(drawn, goal, (uniform[0] < self.fraction)[:, None])

    def _episodes(self, rows: TensorDict) -> tuple[Tensor, Tensor]:
        """The order of the rows by episode, made anew where rows were added."""
        written = self.replay.written
        if self._order is None or self._order[0] != written:
            found = episode_order(rows["trajectory"][:, 0], rows["step_count"][:, 0])
            self._order = (written, *found)
        return self._order[1:]

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
