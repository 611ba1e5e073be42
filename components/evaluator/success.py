"""Success rate of the greedy policy over episodes."""

from __future__ import annotations

import torch
from tensordict import TensorDict
from tensordict.nn import TensorDictModuleBase
from torchrl.envs import EnvBase

from components.evaluator.episodes import greedy_steps
from rlcomp.arguments import PositiveInt
from rlcomp.component import Component
from rlcomp.metrics import record


class Success(Component):
    """Evaluator of the success rate of one greedy episode in every copy of an environment.

    A copy succeeds if a step of its first episode has a reward of at least ``reward``. Records
    ``evaluation/success``, the share of successful copies. Every evaluation has the same starts.

    Args:
        environment: an environment of its own, not the one of the training.
        policy: the policy; takes its most likely actions.
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
        of_first = done.cumsum(1) - done == 0
        arrived = ((played["reward"] >= self.reward) & of_first).flatten(1).any(1)
        record("evaluation/success", arrived.float())
        return batch
