"""Base class of interventions: an intervener acts in place of a policy."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

import torch
from tensordict import TensorDict
from torch import Tensor
from torchrl.data import Bounded

from rlcomp.component import Component
from rlcomp.metrics import record


class Intervention(Component):
    """Base class of stages that replace a policy's actions by an intervener's, and mark them.

    A subclass defines :meth:`decide`. The intervener's actions are clipped to the bounds of the
    environment's actions. Records ``intervention/share``, the share of replaced steps.

    Reads ``observation`` and ``action``. Writes ``action`` ``[N, A]`` and ``intervened``
    ``[N, 1]``.

    Args:
        actions: action spec of one copy of the environment; gives the bounds.

    Source:
        Luo et al. 2024, arXiv:2410.21845, section 3.3.
    """

    reads: ClassVar[tuple[str, ...]] = ("observation", "action")
    writes: ClassVar[tuple[str, ...]] = ("action", "intervened")

    low: Tensor
    high: Tensor

    def __init__(self, *, actions: Bounded) -> None:
        super().__init__()
        space = actions.space
        self.register_buffer("low", space.low.clone(), persistent=False)
        self.register_buffer("high", space.high.clone(), persistent=False)

    @abstractmethod
    def decide(self, batch: TensorDict) -> tuple[Tensor, Tensor]:
        """Return actions ``[N, A]`` and a mask ``[N]`` of the copies that take them."""

    def forward(self, batch: TensorDict) -> TensorDict:
        """Replace the actions that :meth:`decide` selects, and mark them."""
        actions, intervened = self.decide(batch)
        actions = torch.minimum(torch.maximum(actions, self.low), self.high)
        batch["action"] = torch.where(intervened[:, None], actions, batch["action"])
        batch["intervened"] = intervened[:, None]
        record("intervention/share", intervened.float())
        return batch
