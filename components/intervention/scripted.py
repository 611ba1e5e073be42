"""An intervener by rule: it helps who makes no progress."""

from __future__ import annotations

import torch
from tensordict import TensorDict
from torch import Tensor
from torchrl.envs import EnvBase

from rlcomp.arguments import PositiveInt, Probability
from rlcomp.interfaces.guide import Guide
from rlcomp.interfaces.intervention import Intervention
from rlcomp.metrics import progress
from rlcomp.model.continuous_control import bounded_actions


class ScriptedIntervention(Intervention):
    """Takes over for some steps where the last ones brought an episode no nearer to its goal.

    A step is progress where it comes nearer than any of its episode before. After ``patience``
    steps without, the guide acts for ``duration`` steps, then patience begins anew. After a share
    ``until`` of the phase nobody intervenes.

    Reads also ``trajectory``, and what the guide reads.

    Args:
        environment: gives the bounds of actions and the number of copies.
        guide: acts, and knows how far it still is.
        patience: steps without progress, at least 1.
        duration: steps of the guide.
        until: share of the phase in which it may intervene, in [0, 1].
    """

    reads = ("observation", "action", "trajectory")

    episode: Tensor
    nearest: Tensor
    waited: Tensor
    remaining: Tensor

    def __init__(
        self,
        *,
        environment: EnvBase,
        guide: Guide,
        patience: PositiveInt = 8,
        duration: PositiveInt = 10,
        until: Probability = 1.0,
    ) -> None:
        super().__init__(actions=bounded_actions(environment))
        self.guide = guide
        self.patience, self.duration, self.until = patience, duration, until
        copies = environment.batch_size.numel()
        self.register_buffer("nearest", torch.full((copies,), torch.inf))
        # No episode has this number.
        self.register_buffer("episode", torch.full((copies,), torch.iinfo(torch.int64).min))
        for name in ("waited", "remaining"):
            self.register_buffer(name, torch.zeros(copies, dtype=torch.int64))

    def decide(self, batch: TensorDict) -> tuple[Tensor, Tensor]:
        """The guide's actions, and whom it helps."""
        self._watch(batch)
        begins = (self.remaining == 0) & (self.waited >= self.patience) & (progress() < self.until)
        self.remaining = torch.where(begins, self.duration, self.remaining)
        over = self.remaining > 0
        self.remaining = (self.remaining - 1).clamp(min=0)
        self.waited = torch.where(over, 0, self.waited)
        acted: Tensor = self.guide(batch.copy())["action"]
        return acted, over

    def _watch(self, batch: TensorDict) -> None:
        """Count the steps without progress of each episode."""
        left, episode = self.guide.left(batch), batch["trajectory"][:, 0]
        new = episode != self.episode
        nearer = new | (left < self.nearest)
        self.waited = torch.where(nearer, 0, self.waited + 1)
        self.nearest = torch.where(nearer, left, self.nearest)
        self.remaining = torch.where(new, 0, self.remaining)
        self.episode = episode.clone()
