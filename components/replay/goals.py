"""Stages that replay steps with goals: hindsight and future goals of the same episode."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import torch
from annotated_types import Interval
from tensordict import TensorDict
from torch import Tensor

from components.replay.stages import Extend
from components.replay.uniform import UniformReplay
from rlcomp.arguments import PositiveInt, Probability
from rlcomp.component import Component
from rlcomp.errors import ConfigError, FlowError
from rlcomp.functional.goal_conditioned import episode_order, future_positions, geometric_positions
from rlcomp.interfaces.batched_environment import RewardsGoals
from rlcomp.keys import nested
from rlcomp.seed import new_generator

_REQUIRED_KEYS = ("trajectory", "step_count", "next.achieved_goal")


@dataclass(frozen=True)
class ReplayDraw:
    """Steps drawn from a replay, and the order of all rows by episode.

    Attributes:
        rows: all rows of the replay, in the replay's order, ``[R]``.
        order: indices of the rows, sorted by episode and then by step, ``[R]``.
        position: positions of the drawn steps in ``order``, ``[N]``.
        last: positions in ``order`` of the last steps of their episodes, ``[N]``.
    """

    rows: TensorDict
    order: Tensor
    position: Tensor
    last: Tensor

    @property
    def steps(self) -> TensorDict:
        """A copy of the drawn steps, ``[N]``."""
        steps: TensorDict = self.rows[self.order[self.position]]
        return steps

    def achieved_after(self, position: Tensor) -> Tensor:
        """Return the goals ``[N, G]`` achieved after the steps at these positions in ``order``."""
        goals: Tensor = self.rows["next", "achieved_goal"][self.order[position]]
        return goals


class EpisodeRows:
    """Rows of a replay sorted by episode; new rows cause a new sort.

    The replay may have overwritten the first steps of an episode.
    """

    def __init__(self, replay: UniformReplay) -> None:
        self.replay = replay
        # Write count of the replay at the last sort, and the tensors of that sort.
        self._sorted: tuple[int, Tensor, Tensor] | None = None

    def draw(self, count: int, generator: torch.Generator) -> ReplayDraw:
        """Draw ``count`` steps uniformly with replacement.

        Raises:
            FlowError: the replay holds fewer than ``count`` rows, or rows without achieved goals.
        """
        rows = self.replay.rows()
        size = len(self.replay)
        if rows is None or size < count:
            raise FlowError(
                f"the replay holds {size} steps, batch_size is {count}: let it fill "
                "first (phases.warm_up.steps), or lower batch_size"
            )
        keys = rows.keys(include_nested=True)
        if missing := [key for key in _REQUIRED_KEYS if nested(key) not in keys]:
            raise FlowError(
                f"the steps of the replay have no '{missing[0]}', so that no goals can be drawn: "
                "begin with recipe=her or recipe=contrastive, or draw without goals "
                "(replay@sample=sample)"
            )
        order, last = self._episodes(rows)
        position = torch.randint(size, (count,), generator=generator)
        return ReplayDraw(rows, order, position, last[position])

    def _episodes(self, rows: TensorDict) -> tuple[Tensor, Tensor]:
        """Return ``order``, and the position in it of the last step of each position's episode."""
        write_count = self.replay.write_count
        if self._sorted is None or self._sorted[0] != write_count:
            order, last = episode_order(rows["trajectory"][:, 0], rows["step_count"][:, 0])
            self._sorted = (write_count, order, last)
        return self._sorted[1:]


class ExtendGoals(Extend):
    """Stage that stores steps with their goals and episodes and returns the batch.

    Records ``replay/size``.
    """

    reads: ClassVar[tuple[str, ...]] = (
        *("observation", "action", "next.observation", "next.reward", "next.done"),
        *("next.terminated", "desired_goal", "next.desired_goal", "next.achieved_goal"),
        *("trajectory", "step_count"),
    )
    optional: ClassVar[tuple[str, ...]] = ()


class SampleFuture(Component):
    """Stage that draws steps with goals that their own episode achieved later.

    The goal of a step is the goal achieved ``k`` steps later in its episode, with the probability
    ``p(k) ~ gamma^(k - 1)``, from ``k = 1`` to the end of the episode. For a contrastive critic, a
    step is a positive pair with its own goal and a negative pair with the goal of another row.

    Reads nothing. Writes ``observation``, ``action`` and ``desired_goal``.

    Args:
        replay: the replay to draw from.
        batch_size: rows per batch (``N``).
        gamma: discount, in (0, 1).

    Raises:
        ConfigError: the capacity of the replay is smaller than a batch.
        FlowError: the replay holds fewer rows than a batch, or rows without goals.

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
        """Return steps with their goals; the incoming batch is ignored."""
        draw = self.rows.draw(self.batch_size, self.generator)
        uniform = torch.rand(self.batch_size, generator=self.generator)
        position = geometric_positions(draw.position, draw.last, uniform, self.gamma)
        steps = draw.steps.select("observation", "action")
        steps["desired_goal"] = draw.achieved_after(position)
        return steps


class SampleHindsight(Component):
    """Stage that draws steps and gives some of them a goal achieved later in their episode.

    With probability ``fraction`` the goal of step ``t`` becomes the goal achieved after step ``f``,
    with ``f`` uniform in ``t, ..., T - 1`` and ``T`` the number of the episode's steps. The reward
    is computed for the new goal. (torchrl's ``HERReplayBuffer`` also takes goals from other
    environment copies, and may take the state before a step as its goal.)

    Reads nothing. Writes the keys that :class:`ExtendGoals` stored.

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
        """Return steps, some with new goals; the incoming batch is ignored."""
        draw = self.rows.draw(self.batch_size, self.generator)
        uniform = torch.rand(2, self.batch_size, generator=self.generator)
        goal = draw.achieved_after(future_positions(draw.position, draw.last, uniform[1]))
        return self._replace_goals(draw.steps, goal, (uniform[0] < self.fraction)[:, None])

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
