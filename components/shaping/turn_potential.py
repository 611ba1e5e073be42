"""Potential-based shaping of turn rewards."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import torch
from tensordict import TensorDict
from torch import Tensor

from rlcomp.arguments import NonNegativeFloat, Probability
from rlcomp.component import Component
from rlcomp.functional.masked import masked
from rlcomp.functional.process_reward import potential_shaping
from rlcomp.keys import Key, OwnKey
from rlcomp.metrics import record


class TurnPotential(Component):
    """Potential-based shaping of turns: ``r_k <- r_k + c (gamma Phi(s_{k+1}) - Phi(s_k))``.

    ``s_k`` is the state at the begin of turn k, so that the discount counts turns. See
    :class:`~components.shaping.potential.Potential`. A row is a whole episode.

    Runs the potential. Reads ``response_mask``, ``turn_id``, ``turn_reward`` ``[B, T]``. Writes
    ``turn_reward`` ``[B, T]``. Records ``reward/potential_turn``, the mean absolute ``F`` of a
    turn.

    Args:
        potential: the potential; writes ``potential`` ``[B, T]``, Phi of the state before the
            token.
        coef: c, weight of the shaping.
        gamma: discount per turn, the same as the return's.

    Source:
        Ng, Harada, Russell 1999, "Policy invariance under reward transformations", theorem 1.
    """

    keys: ClassVar[Mapping[Key, OwnKey]] = {
        "potential": ("B T", "float", "Phi of the state before the token, in reward units"),
    }
    reads = ("response_mask", "turn_id", "turn_reward")
    writes = ("turn_reward",)
    runs = ("potential",)
    contained = True

    def __init__(
        self, *, potential: Component, coef: NonNegativeFloat = 1.0, gamma: Probability = 1.0
    ) -> None:
        super().__init__()
        self.potential = potential
        self.coef = coef
        self.gamma = gamma

    def forward(self, batch: TensorDict) -> TensorDict:
        """Add the shaping to the turn rewards."""
        mask = batch["response_mask"]
        first, last = turn_bounds(batch["turn_id"], mask)
        phi = self.potential(batch.copy())["potential"].detach()
        shaped = self.coef * potential_shaping(phi, first, self.gamma)
        record("reward/potential_turn", shaped.abs(), where=first)
        # First and last tokens of a row are in the same order, so that they match by turn.
        moved = torch.zeros_like(shaped).masked_scatter(last, shaped[first])
        batch["turn_reward"] = masked(batch["turn_reward"].detach(), mask) + moved
        return batch


def turn_bounds(turn_id: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Return masks of the first and the last sampled token of each turn, ``[B, T]`` each.

    Examples:
        >>> ids, mask = torch.tensor([[-1, 0, 0, -1, 1]]), torch.tensor([[0, 1, 1, 0, 1]]).bool()
        >>> first, last = turn_bounds(ids, mask)
        >>> first.int(), last.int()
        (tensor([[0, 1, 0, 0, 1]], dtype=torch.int32), tensor([[0, 0, 1, 0, 1]], dtype=torch.int32))
    """
    turn = torch.where(mask, turn_id, -1)
    before = turn.cummax(1).values.roll(1, 1)
    before[:, 0] = -1
    first = mask & (turn > before)
    later = torch.where(mask, turn_id, torch.iinfo(turn_id.dtype).max)
    after = later.flip(1).cummin(1).values.flip(1).roll(-1, 1)
    after[:, -1] = torch.iinfo(turn_id.dtype).max
    return first, mask & (turn < after)
