"""Success rates, sampled and greedy, of a policy with actions as tokens."""

from __future__ import annotations

import torch
from tensordict import TensorDict

from rlcomp.arguments import NonEmptyText
from rlcomp.component import Component
from rlcomp.episodes.action_rows import ActsInTokens, play_rows
from rlcomp.interfaces.batched_environment import BatchedEnvironment
from rlcomp.metrics import record


class ActionTokenSuccess(Component):
    """Evaluator that plays every copy of an environment twice, sampled and greedily.

    Records ``<name>/success`` and ``<name>/greedy_success``: the share of episodes with a step at
    the goal. A policy that was trained with sampled actions may be far worse with greedy ones: near
    the goal the most likely action may be to stand still. Every evaluation has the same starts and
    draws.

    Args:
        environment: an environment of its own, not the one of the training.
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
        for kind, drawn in (("success", generator), ("greedy_success", None)):
            self.environment.set_seed(self.seed)
            start = self.environment.begin_groups(1)
            rows = play_rows(self.environment, self.policy, start, drawn, self.goal_reward)
            record(f"{self.name}/{kind}", rows["turn_reward"].sum(1))
        return batch
