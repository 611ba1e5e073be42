"""Evaluators that play episodes of control environments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import torch
from tensordict import TensorDict
from tensordict.nn import TensorDictModuleBase
from torch import Tensor
from torchrl.envs import EnvBase, ExplorationType, set_exploration_type

from rlcomp.arguments import MinLen, NonEmptyText, PositiveInt
from rlcomp.component import Component
from rlcomp.episodes.action_rows import ActsInTokens, play_rows
from rlcomp.errors import ConfigError
from rlcomp.interfaces.batched_environment import BatchedEnvironment, HasDynamics
from rlcomp.metrics import record


class GreedyReturn(Component):
    """Evaluator of the return of one greedy episode in every copy of an environment.

    Records ``evaluation/return``, the mean over the copies. Every evaluation has the same starts.

    Args:
        environment: the evaluator's own environment, not the training environment.
        policy: the policy, which acts greedily.
        max_steps: steps after which an episode is cut; its rewards so far count.
    """

    def __init__(
        self, *, environment: EnvBase, policy: TensorDictModuleBase, max_steps: PositiveInt = 500
    ) -> None:
        super().__init__()
        self.environment = environment
        self.policy = policy
        self.max_steps = max_steps
        self.seed = torch.initial_seed() % 2**31

    def forward(self, batch: TensorDict) -> TensorDict:
        """Evaluate and record; ignores the training batch."""
        played = greedy_steps(self.environment, self.policy, self.max_steps, self.seed)
        record("evaluation/return", first_return(played["reward"], played["done"]))
        return batch


def greedy_steps(
    environment: EnvBase, policy: TensorDictModuleBase, num_steps: int, seed: int
) -> TensorDict:
    """Play the first episode of every copy greedily; return the entries after each step.

    The episodes of a policy depend on the seed alone.

    Args:
        environment: ``N`` copies.
        policy: acts in the copies.
        num_steps: maximum number of steps of a copy; ended episodes restart until all copies have
            ended an episode.
        seed: seed of the environment.

    Returns:
        Entries ``[N, T, ...]`` of ``next``.
    """
    environment.set_seed(seed)
    played: list[TensorDict] = []
    with torch.no_grad(), set_exploration_type(ExplorationType.DETERMINISTIC):
        observed = environment.reset()
        ended = torch.zeros_like(observed["done"])
        while len(played) < num_steps and not bool(ended.all()):
            stepped, observed = environment.step_and_maybe_reset(policy(observed))
            played.append(stepped["next"])
            ended |= stepped["next", "done"]
    rows: TensorDict = torch.stack(played, dim=1)
    return rows


def first_return(reward: Tensor, done: Tensor) -> Tensor:
    """Return the undiscounted return of each row's first episode.

    Args:
        reward: shape ``[N, T, 1]``; entries after the first end are ignored.
        done: bool, same shape: the episode ended with this step.

    Returns:
        Shape ``[N]``, in reward units.

    Examples:
        >>> reward = torch.tensor([1.0, 2.0, 4.0]).view(1, 3, 1)
        >>> first_return(reward, torch.tensor([False, True, True]).view(1, 3, 1))
        tensor([3.])
    """
    earlier = done.cumsum(1) - done.long()
    return torch.where(earlier == 0, reward, 0.0).sum((1, 2))


class GreedySuccess(Component):
    """Evaluator of the success rate of one greedy episode in every copy of an environment.

    A copy succeeds if a step of its first episode has a reward of at least ``reward``. Records
    ``evaluation/success``, the share of successful copies. Every evaluation has the same starts.

    Args:
        environment: the evaluator's own environment, not the training environment.
        policy: the policy, which acts greedily.
        max_steps: steps after which an episode is cut.
        reward: reward of a step at the goal.
    """

    def __init__(
        self,
        *,
        environment: EnvBase,
        policy: TensorDictModuleBase,
        max_steps: PositiveInt = 50,
        reward: float = 0.0,
    ) -> None:
        super().__init__()
        self.environment = environment
        self.policy = policy
        self.max_steps = max_steps
        self.reward = reward
        self.seed = torch.initial_seed() % 2**31

    def forward(self, batch: TensorDict) -> TensorDict:
        """Evaluate and record; ignores the training batch."""
        played = greedy_steps(self.environment, self.policy, self.max_steps, self.seed)
        done = played["done"].long()
        in_first_episode = done.cumsum(1) - done == 0
        success = ((played["reward"] >= self.reward) & in_first_episode).flatten(1).any(1)
        record("evaluation/success", success.float())
        return batch


class ActionTokenSuccess(Component):
    """Evaluator that plays every copy of an environment twice, sampled and greedily.

    Records ``<name>/success`` and ``<name>/greedy_success``: the share of episodes with a step at
    the goal. A policy that was trained with sampled actions may be far worse with greedy ones: near
    the goal the most likely action may be to stand still. Every evaluation has the same starts and
    draws.

    Args:
        environment: the evaluator's own environment, not the training environment.
        policy: the policy, whose actions are tokens.
        goal_reward: reward of a step at the goal.
        name: prefix of its metrics.
    """

    def __init__(
        self,
        *,
        environment: BatchedEnvironment,
        policy: ActsInTokens,
        goal_reward: float = 0.0,
        name: NonEmptyText = "evaluation",
    ) -> None:
        super().__init__()
        self.environment = environment
        self.policy = policy
        self.goal_reward = goal_reward
        self.name = name
        self.seed = torch.initial_seed() % 2**31

    def forward(self, batch: TensorDict) -> TensorDict:
        """Evaluate and record; ignores the training batch."""
        generator = torch.Generator().manual_seed(self.seed)
        for kind, sampler in (("success", generator), ("greedy_success", None)):
            self.environment.set_seed(self.seed)
            start = self.environment.begin_groups(1)
            rows = play_rows(self.environment, self.policy, start, sampler, self.goal_reward)
            # 1 for a row with a step at the goal, after which its episode is over; 0 otherwise.
            record(f"{self.name}/{kind}", rows["turn_reward"].sum(1))
        return batch


class ShiftedDynamics(Component):
    """Evaluator of the return of one greedy episode per copy, under several dynamics.

    Records ``evaluation/return`` under the environment's own dynamics and, for each shift,
    ``evaluation/return@NAME`` and ``evaluation/gap@NAME``, the return under the own dynamics minus
    the return under the shifted dynamics. Every evaluation has the same starts.

    Args:
        environment: the evaluator's own environment, not the training environment; its dynamics can
            be set.
        policy: the policy, which acts greedily.
        max_steps: steps after which an episode is cut; its rewards so far count.
        shifts: changed parameters of the dynamics, by name of the shift.

    Raises:
        ConfigError: the dynamics of the environment cannot be set, or a parameter is unknown.
    """

    def __init__(
        self,
        *,
        environment: EnvBase,
        policy: TensorDictModuleBase,
        max_steps: PositiveInt = 500,
        shifts: Annotated[dict[str, dict[str, float]], MinLen(1)],
    ) -> None:
        super().__init__()
        if not isinstance(environment, HasDynamics):
            raise ConfigError(
                f"evaluation.environment is a {type(environment).__name__}, whose dynamics cannot "
                "be set: take one of the environments in torch (environment=torch_cartpole, "
                "pendulum, track, reach)"
            )
        # Setting them once refuses an unknown parameter now, not at the first evaluation.
        for values in shifts.values():
            environment.set_dynamics(values)
        environment.set_dynamics({})
        self.environment = environment
        self.policy = policy
        self.max_steps = max_steps
        self.shifts = shifts
        self.seed = torch.initial_seed() % 2**31

    def forward(self, batch: TensorDict) -> TensorDict:
        """Evaluate and record; ignores the training batch."""
        unshifted = self._return({})
        record("evaluation/return", unshifted)
        for name, values in self.shifts.items():
            shifted = self._return(values)
            record(f"evaluation/return@{name}", shifted)
            record(f"evaluation/gap@{name}", float(unshifted.mean() - shifted.mean()))
        return batch

    def _return(self, values: Mapping[str, float]) -> Tensor:
        self.environment.set_dynamics(values)
        played = greedy_steps(self.environment, self.policy, self.max_steps, self.seed)
        self.environment.set_dynamics({})
        return first_return(played["reward"], played["done"])


class HorizonCost(Component):
    """Evaluator of the cost of one greedy episode per copy, up to several horizons.

    Records ``evaluation/cost@H``: the summed cost of the first ``H`` steps, averaged over the
    copies. Every evaluation has the same starts and the same noise.

    Args:
        environment: the evaluator's own environment, not the training environment; its episodes are
            as long as the longest horizon.
        policy: the policy, which acts greedily.
        cost: the environment's entry for the cost of a step, ``[N, 1]``, e.g. ``off_road``.
        horizons: numbers of steps.

    Source:
        Ross and Bagnell 2010: the cost of cloning may grow as the square of the horizon.
    """

    def __init__(
        self,
        *,
        environment: EnvBase,
        policy: TensorDictModuleBase,
        cost: NonEmptyText = "off_road",
        horizons: list[PositiveInt],
    ) -> None:
        super().__init__()
        self.environment = environment
        self.policy = policy
        self.cost = cost
        self.horizons = horizons
        self.seed = torch.initial_seed() % 2**31

    def forward(self, batch: TensorDict) -> TensorDict:
        """Evaluate and record; ignores the training batch."""
        self.environment.set_seed(self.seed)
        with set_exploration_type(ExplorationType.DETERMINISTIC):
            played = self.environment.rollout(
                max(self.horizons), self.policy, break_when_any_done=False
            )
        total = played["next", self.cost][..., 0].float().cumsum(1)
        for horizon in self.horizons:
            record(f"evaluation/cost@{horizon}", total[:, horizon - 1])
        return batch
