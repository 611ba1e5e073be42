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
    """With probability beta the expert acts, else the learner: ``beta_i = decay^i``, rounds from 0.

    A round is a step of the phase. The first is the expert's alone; with ``decay=0`` all others are
    the learner's. Records ``exploration/beta``.

    Reads ``observation`` and ``action``, writes ``action``.

    Args:
        expert: acts on ``observation``.
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
        """Count rounds from here."""
        self.began.fill_(step())

    def forward(self, batch: TensorDict) -> TensorDict:
        """Exchange some actions."""
        beta = self.decay ** (step() - int(self.began))
        record("exploration/beta", beta)
        asked = torch.rand(batch.shape[0], 1, generator=self.generator) < beta
        right = self.expert(batch.select("observation"))["action"]
        batch["action"] = torch.where(asked, right, batch["action"])
        return batch
