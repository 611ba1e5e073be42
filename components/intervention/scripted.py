"""Intervention by a rule that helps episodes without progress."""

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
    """Intervention for some steps after an episode came no nearer to its goal.

    A step is progress if it comes nearer than any earlier step of its episode. After ``patience``
    steps without progress the guide acts for ``duration`` steps, then the count restarts. After a
    share ``until`` of the phase there is no intervention.

    Also reads ``trajectory`` and what the guide reads.

    Args:
        environment: the environment, for the bounds of actions and the number of copies.
        guide: the guide, which acts and knows the distance to the goal.
        patience: steps without progress, at least 1.
        duration: number of the guide's steps.
        until: share of the phase with interventions, in [0, 1].
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
        # no episode has this number
        self.register_buffer("episode", torch.full((copies,), torch.iinfo(torch.int64).min))
        for name in ("waited", "remaining"):
            self.register_buffer(name, torch.zeros(copies, dtype=torch.int64))

    def decide(self, batch: TensorDict) -> tuple[Tensor, Tensor]:
        """Return the guide's actions and the mask of the copies it helps."""
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
        distance, episode = self.guide.left(batch), batch["trajectory"][:, 0]
        new = episode != self.episode
        nearer = new | (distance < self.nearest)
        self.waited = torch.where(nearer, 0, self.waited + 1)
        self.nearest = torch.where(nearer, distance, self.nearest)
        self.remaining = torch.where(new, 0, self.remaining)
        self.episode = episode.clone()
