"""Reward of tactics on a proof that a search has found."""

from __future__ import annotations

import torch
from tensordict import TensorDict

from rlcomp.component import Component
from rlcomp.interfaces.reward import write_reward


class OnProof(Component):
    """Reward 1 for each tactic of a proof that a search has found, else 0.

    All tactics of an unproven goal get 0.

    Reads ``on_proof`` ``[B]``. Writes ``reward``, ``rewards``, ``correct`` and ``reward_valid``
    ``[B]``.
    """

    reads = ("on_proof",)
    writes = ("reward", "rewards", "correct", "reward_valid")
    keys = {"on_proof": ("B", "bool", "the tactic is one of a proof that was found")}

    def forward(self, batch: TensorDict) -> TensorDict:
        """Reward the tactics of proofs."""
        right = batch["on_proof"]
        reward = right.float()
        return write_reward(batch, reward, {"on_proof": reward}, right, torch.ones_like(right))
