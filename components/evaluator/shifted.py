"""Return of the greedy policy under shifted dynamics (the sim-to-real gap)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import torch
from tensordict import TensorDict
from tensordict.nn import TensorDictModuleBase
from torch import Tensor
from torchrl.envs import EnvBase

from components.evaluator.episodes import first_return, greedy_steps
from rlcomp.arguments import MinLen, PositiveInt
from rlcomp.component import Component
from rlcomp.errors import ConfigError
from rlcomp.interfaces.dynamics import HasDynamics
from rlcomp.metrics import record


class Shifted(Component):
    """Evaluator of the return of one greedy episode per copy, under several dynamics.

    Records ``evaluation/return`` under the environment's own dynamics and, for each shift,
    ``evaluation/return@NAME`` and ``evaluation/gap@NAME``, the loss ``G(own) - G(shifted)``. Every
    evaluation has the same starts.

    Args:
        environment: an environment of its own, not the one of the training; its dynamics can be
            set.
        policy: the policy; takes its most likely actions.
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
        own = self._return({})
        record("evaluation/return", own)
        for name, values in self.shifts.items():
            shifted = self._return(values)
            record(f"evaluation/return@{name}", shifted)
            record(f"evaluation/gap@{name}", float(own.mean() - shifted.mean()))
        return batch

    def _return(self, values: Mapping[str, float]) -> Tensor:
        self.environment.set_dynamics(values)
        played = greedy_steps(self.environment, self.policy, self.max_steps, self.seed)
        self.environment.set_dynamics({})
        return first_return(played["reward"], played["done"])
