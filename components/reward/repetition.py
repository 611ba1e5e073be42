"""Repetition penalty on repeated n-grams of tokens."""

from __future__ import annotations

import torch
from tensordict import TensorDict

from rlcomp.arguments import NonNegativeFloat, PositiveInt
from rlcomp.component import Component
from rlcomp.interfaces.reward import write_reward
from rlcomp.verify.repetition import repetition


class Repetition(Component):
    """Repetition penalty by the share of distinct n-grams.

    ``R = -penalty (1 - distinct / all)`` n-grams of the response's tokens; 0 for a response with
    fewer than ``n`` tokens.

    Reads ``tokens``, ``response_mask`` ``[B, T]``. Writes ``reward``, float32 ``[B]``, ``rewards``
    (``{"repetition": [B]}``), ``correct`` (nothing is repeated) and ``reward_valid``, always True.
    Records the metrics of :func:`rlcomp.interfaces.reward.write_reward`.

    Args:
        size: n, tokens of an n-gram.
        penalty: penalty of a response that only repeats, in reward units.

    Source:
        Yeo et al. 2025, arXiv:2502.03373; agrees with TRL's repetition penalty reward.
    """

    reads = ("tokens", "response_mask")
    optional = ("episode_error",)
    writes = ("reward", "rewards", "correct", "reward_valid")
    is_free = True

    def __init__(self, *, size: PositiveInt = 3, penalty: NonNegativeFloat = 1.0) -> None:
        super().__init__()
        self.size = size
        self.penalty = penalty

    def forward(self, batch: TensorDict) -> TensorDict:
        """Count the n-grams of every response."""
        rows = zip(batch["tokens"].cpu(), batch["response_mask"].cpu(), strict=True)
        shares = [repetition(row[mask].tolist(), self.size) for row, mask in rows]
        share = torch.tensor(shares, dtype=torch.float32, device=batch["tokens"].device)
        reward = -self.penalty * share
        valid = torch.ones_like(share, dtype=torch.bool)
        return write_reward(batch, reward, {"repetition": reward}, share == 0, valid, decides=False)
