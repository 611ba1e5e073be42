"""Epsilon-greedy exploration over numbered actions."""

from __future__ import annotations

import torch
from tensordict import TensorDict
from torchrl.envs import EnvBase

from rlcomp.arguments import Probability
from rlcomp.component import Component
from rlcomp.metrics import progress, record
from rlcomp.seed import new_generator


class EpsilonGreedy(Component):
    """Exploration that replaces an action by a uniform one with probability epsilon.

    ``epsilon = start + (end - start) min(1, p / fraction)``, ``p`` the phase's progress. Records
    ``exploration/epsilon``.

    Reads and writes ``action`` ``[N]``.

    Args:
        environment: the environment, for the number of actions.
        start: epsilon when the phase begins.
        end: epsilon from ``fraction`` on.
        fraction: share of the phase, in (0, 1].

    Source:
        Mnih et al. 2015, doi:10.1038/nature14236, methods.
    """

    reads = ("action",)
    writes = ("action",)

    def __init__(
        self,
        *,
        environment: EnvBase,
        start: Probability = 1.0,
        end: Probability = 0.05,
        fraction: Probability = 0.3,
    ) -> None:
        super().__init__()
        self.choices = int(environment.action_spec_unbatched.n)
        self.start, self.end, self.fraction = start, end, fraction
        self.generator = new_generator()

    def forward(self, batch: TensorDict) -> TensorDict:
        """Replace some actions by random ones."""
        done = min(1.0, progress() / self.fraction) if self.fraction else 1.0
        epsilon = self.start + (self.end - self.start) * done
        record("exploration/epsilon", epsilon)
        action = batch["action"]
        explores = torch.rand(action.shape, generator=self.generator) < epsilon
        drawn = torch.randint(self.choices, action.shape, generator=self.generator)
        batch["action"] = torch.where(explores, drawn, action)
        return batch
