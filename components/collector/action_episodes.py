"""Collector of episodes of control with actions as tokens."""

from __future__ import annotations

import torch
from tensordict import TensorDict

from rlcomp.arguments import PositiveInt
from rlcomp.component import Component
from rlcomp.episodes.action_rows import ActsInTokens, play_rows
from rlcomp.interfaces.batched_environment import BatchedEnvironment
from rlcomp.interfaces.policy import ScoresRows
from rlcomp.metrics import record, record_total
from rlcomp.seed import new_generator


class ActionEpisodes(Component):
    """Collector of one episode per copy of an environment, each a row of tokens.

    The copies of a group have equal starts. An episode ends at the first step with the reward of
    the goal; the rest of its row is padding. The rows have the layout of an agent's episodes: each
    step is a turn.

    Reads nothing. Writes a new batch: ``tokens``, ``attention_mask``, ``response_mask``,
    ``rollout_log_probs``, ``policy_version``, ``turn_id``, ``turn_reward`` ``[B, T]``,
    ``group_id``, ``trajectory_id``, ``truncated`` ``[B]``. Records ``episode/success``,
    ``episode/length`` (steps) and ``collector/frames``.

    Args:
        environment: the environment, one copy per row.
        policy: the policy, whose actions are tokens.
        group_size: number of copies with equal starts.
        goal_reward: reward of a step at the goal.

    Raises:
        ConfigError: ``group_size`` does not divide the number of copies.
    """

    writes = (
        *("tokens", "attention_mask", "response_mask", "rollout_log_probs", "policy_version"),
        *("turn_id", "turn_reward", "group_id", "trajectory_id", "truncated"),
    )
    fresh = True

    def __init__(
        self,
        *,
        environment: BatchedEnvironment,
        policy: ActsInTokens,
        group_size: PositiveInt,
        goal_reward: float = 0.0,
    ) -> None:
        super().__init__()
        environment.check_groups(group_size)
        self.environment = environment
        self.policy = policy
        self.group_size = group_size
        self.goal_reward = goal_reward
        self.generator = new_generator()

    def forward(self, batch: TensorDict) -> TensorDict:
        """Play and return one episode per copy; the incoming batch is ignored."""
        start = self.environment.begin_groups(self.group_size)
        rows = play_rows(self.environment, self.policy, start, self.generator, self.goal_reward)
        copies = torch.arange(self.environment.num_envs)
        rows["group_id"] = copies // self.group_size
        version = self.policy.version if isinstance(self.policy, ScoresRows) else 0
        rows["policy_version"] = torch.full(rows["tokens"].shape, version)
        lengths = rows["turn_id"].amax(1) + 1
        record("episode/success", rows["turn_reward"].sum(1))
        record("episode/length", lengths.float())
        record_total("collector/frames", float(lengths.sum()))
        return rows
