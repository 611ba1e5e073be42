"""Exploration noise."""

from __future__ import annotations

import torch
from tensordict import TensorDict
from tensordict.nn import TensorDictModuleBase
from torchrl.envs import EnvBase

from rlcomp.arguments import PositiveFloat, Probability
from rlcomp.component import Component
from rlcomp.metrics import progress, record, step
from rlcomp.seed import new_generator


class EpsilonGreedy(Component):
    """Exploration that replaces an action by a uniform one with probability epsilon.

    ``epsilon = start + (end - start) min(1, p / fraction)``, ``p`` the phase's progress. Records
    ``exploration/epsilon``.

    Reads and writes ``action`` ``[N]``.

    Args:
        environment: the environment, for the number of actions.
        start: epsilon when the phase begins.
        end: epsilon after the share ``fraction`` of the phase.
        fraction: share of the phase over which epsilon changes; 0: epsilon is ``end``.

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
        self.num_actions = int(environment.action_spec_unbatched.n)
        self.start, self.end, self.fraction = start, end, fraction
        self.generator = new_generator()

    def forward(self, batch: TensorDict) -> TensorDict:
        """Replace some actions by random ones."""
        share = min(1.0, progress() / self.fraction) if self.fraction else 1.0
        epsilon = self.start + (self.end - self.start) * share
        record("exploration/epsilon", epsilon)
        action = batch["action"]
        explores = torch.rand(action.shape, generator=self.generator) < epsilon
        random_action = torch.randint(self.num_actions, action.shape, generator=self.generator)
        batch["action"] = torch.where(explores, random_action, action)
        return batch


class ExpertMixture(Component):
    """Exploration in which the expert acts with probability ``beta_i = decay^i`` in round ``i``.

    Otherwise the learner acts. Rounds are steps of the phase, from 0. In round 0 only the expert
    acts; with ``decay=0`` only the learner acts in later rounds. Records ``exploration/beta``.

    Reads ``observation`` and ``action`` ``[N, A]`` (the learner's). Writes ``action``.

    Args:
        expert: the expert; reads ``observation``.
        decay: p of the paper, in [0, 1].

    Source:
        Ross, Gordon and Bagnell 2011, arXiv:1011.0686, section 3.
    """

    reads = ("observation", "action")
    writes = ("action",)

    began: torch.Tensor

    def __init__(self, *, expert: TensorDictModuleBase, decay: Probability = 0.0) -> None:
        super().__init__()
        self.expert = expert
        self.decay = decay
        self.generator = new_generator()
        self.register_buffer("began", torch.zeros((), dtype=torch.int64))

    def begin_phase(self) -> None:
        """Set the round to 0."""
        self.began.fill_(step())

    def forward(self, batch: TensorDict) -> TensorDict:
        """Replace some actions by the expert's."""
        beta = self.decay ** (step() - int(self.began))  # 0 ** 0 is 1
        record("exploration/beta", beta)
        by_expert = torch.rand(batch.shape[0], 1, generator=self.generator) < beta
        expert_action = self.expert(batch.select("observation"))["action"]
        batch["action"] = torch.where(by_expert, expert_action, batch["action"])
        return batch


class GaussianExploration(Component):
    """Gaussian noise: ``a <- clip(a + scale ((high - low) / 2) n, low, high)``, ``n ~ N(0, 1)``.

    Reads and writes ``action`` ``[N, A]``.

    Args:
        environment: the environment, for the bounds of actions.
        scale: standard deviation, in units of half of the actions' range.

    Source:
        Fujimoto et al. 2018, arXiv:1802.09477, section 6.1 (scale 0.1).
    """

    reads = ("action",)
    writes = ("action",)

    low: torch.Tensor
    high: torch.Tensor

    def __init__(self, *, environment: EnvBase, scale: PositiveFloat = 0.1) -> None:
        super().__init__()
        space = environment.action_spec_unbatched.space
        self.scale = scale
        self.register_buffer("low", space.low.clone(), persistent=False)
        self.register_buffer("high", space.high.clone(), persistent=False)
        self.generator = new_generator()

    def forward(self, batch: TensorDict) -> TensorDict:
        """Add the noise."""
        action = batch["action"]
        noise = torch.randn(action.shape, generator=self.generator)
        noisy = action + self.scale * 0.5 * (self.high - self.low) * noise
        batch["action"] = torch.minimum(torch.maximum(noisy, self.low), self.high)
        return batch
