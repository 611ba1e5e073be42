"""Rewards from returns and facts of an environment."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from tensordict import TensorDict

from rlcomp.arguments import NonEmptyText
from rlcomp.component import Component
from rlcomp.functional.reduction import masked
from rlcomp.interfaces.fact_reward import FactReward, facts_of
from rlcomp.interfaces.reward import write_reward
from rlcomp.interfaces.turns import episode_index


class EpisodeReturn(Component):
    """Reward equal to the episode's return ``R = sum_k r_k`` of the environment's rewards.

    The sum is over all rows of the episode (``trajectory_id``). A row whose sum is NaN or infinite
    in float32 is invalid.

    Reads ``turn_reward``, ``response_mask`` ``[B, T]``. Writes ``reward``, ``rewards``
    (``{episode_return: [B]}``), ``correct`` and ``reward_valid`` ``[B]``. Records the metrics of
    :func:`rlcomp.interfaces.reward.write_reward`.

    Args:
        correct_from: least return of a right episode.
    """

    reads = ("turn_reward", "response_mask")
    optional = ("episode_error", "trajectory_id")
    exclusive = "turn_reward"
    writes = ("reward", "rewards", "correct", "reward_valid")

    def __init__(self, *, correct_from: float = 1.0) -> None:
        super().__init__()
        self.correct_from = correct_from

    def forward(self, batch: TensorDict) -> TensorDict:
        """Sum the rewards of the turns."""
        row_reward = masked(batch["turn_reward"].detach(), batch["response_mask"]).sum(1)
        episode, first = (each.to(row_reward.device) for each in episode_index(batch))
        reward = row_reward.new_zeros(len(first)).index_add(0, episode, row_reward)[episode]
        right, valid = reward >= self.correct_from, reward.isfinite()
        return write_reward(batch, reward, {"episode_return": reward}, right, valid)


class EpisodeFact(FactReward):
    """Fact reward ``R = facts[name]``, such as the cost of tools; its weight gives the sign.

    Reads and writes: see :class:`rlcomp.interfaces.fact_reward.FactReward`; name in ``rewards``:
    ``fact``.

    Args:
        fact: name of the fact.
        correct_from: least value of the fact in a right episode; null: no episode is right.
    """

    name = "fact"

    def __init__(self, *, fact: NonEmptyText, correct_from: float | None = None) -> None:
        super().__init__()
        self.facts_read = (fact,)
        self.correct_from = math.inf if correct_from is None else correct_from

    def score_row(self, row: Mapping[str, object]) -> float:
        """Return the number."""
        return facts_of(row)[self.facts_read[0]]

    def is_correct(self, score: float) -> bool:
        """Return whether the number is large enough."""
        return score >= self.correct_from


class ProofMembership(Component):
    """Reward 1 for each tactic of a proof that a search has found, else 0.

    All tactics of an unproven goal get 0.

    Reads ``on_proof`` ``[B]``. Writes ``reward``, ``rewards`` (``{on_proof: [B]}``), ``correct``
    and ``reward_valid`` (always True) ``[B]``. Records the metrics of
    :func:`rlcomp.interfaces.reward.write_reward`.
    """

    reads = ("on_proof",)
    writes = ("reward", "rewards", "correct", "reward_valid")
    keys = {"on_proof": ("B", "bool", "the tactic is part of the proof")}

    def forward(self, batch: TensorDict) -> TensorDict:
        """Reward the tactics of proofs."""
        right = batch["on_proof"]
        reward = right.float()
        return write_reward(batch, reward, {"on_proof": reward}, right, torch.ones_like(right))
