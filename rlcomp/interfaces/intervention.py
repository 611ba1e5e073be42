"""Interventions: an observer of a policy may act in its place."""

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
    """Stage that replaces a policy's actions by an intervener's, and marks them.

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
        """Replace some actions."""
        chosen, over = self.decide(batch)
        chosen = torch.minimum(torch.maximum(chosen, self.low), self.high)
        batch["action"] = torch.where(over[:, None], chosen, batch["action"])
        batch["intervened"] = over[:, None]
        record("intervention/share", over.float())
        return batch
