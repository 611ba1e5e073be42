"""DAgger's mixture of expert and learner."""

from __future__ import annotations

import torch
from tensordict import TensorDict
from tensordict.nn import TensorDictModuleBase

from rlcomp.arguments import Probability
from rlcomp.component import Component
from rlcomp.metrics import record, step
from rlcomp.seed import new_generator


class ExpertMixture(Component):
    """Exploration in which the expert acts with probability ``beta_i = decay^i`` in round ``i``.

    Otherwise the learner acts. Rounds are steps of the phase, from 0. In the first round only the
    expert acts; with ``decay=0`` only the learner acts in all others. Records
    ``exploration/beta``.

    Reads ``observation`` and ``action``, writes ``action``.

    Args:
        expert: the expert; reads ``observation``.
        decay: the paper's p, in [0, 1].

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
        beta = self.decay ** (step() - int(self.began))
        record("exploration/beta", beta)
        by_expert = torch.rand(batch.shape[0], 1, generator=self.generator) < beta
        right = self.expert(batch.select("observation"))["action"]
        batch["action"] = torch.where(by_expert, right, batch["action"])
        return batch
