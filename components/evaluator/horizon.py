"""Cost of a policy against the horizon."""

from __future__ import annotations

import torch
from tensordict import TensorDict
from tensordict.nn import TensorDictModuleBase
from torchrl.envs import EnvBase, ExplorationType, set_exploration_type

from rlcomp.arguments import NonEmptyText, PositiveInt
from rlcomp.component import Component
from rlcomp.metrics import record


class Horizon(Component):
    """Evaluator of the cost of one greedy episode per copy, up to several horizons.

    Records ``evaluation/cost@H``: the summed cost of the first ``H`` steps, averaged over the
    copies. Every evaluation has the same starts and the same noise.

    Args:
        environment: an environment of its own, not the one of the training; its episodes are as
            long as the longest horizon.
        policy: the policy; takes its most likely actions.
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
