"""ReMax advantage: reward minus the reward of the greedy response."""

from __future__ import annotations

from typing import Literal

import torch
from tensordict import TensorDict
from torch import Tensor

from rlcomp.arguments import PositiveFloat
from rlcomp.component import Component
from rlcomp.functional.baseline import greedy_reward
from rlcomp.functional.masked import masked
from rlcomp.interfaces.advantage import write_advantage
from rlcomp.metrics import record


class GreedyBaseline(Component):
    """ReMax advantage: greedy-decoding baseline.

    ``A_t = R(y) - R(y_greedy) + sum_{s >= t} r_s`` with ``y_greedy`` the greedy response to the
    same prompt and ``r`` the dense rewards, if any.

    Needs ``collector@rollout=greedy_baseline``. Greedy responses are not trained on: their
    ``response_mask`` becomes False.

    Reads ``reward``, ``reward_valid``, ``group_id``, ``greedy`` ``[B]``, ``response_mask``
    ``[B, T]``. Writes ``advantage`` ``[B, T]``: 0 for greedy answers, for invalid rewards and where
    the greedy answer's is invalid; ``response_mask``, False on greedy answers. Records the
    baseline.

    Args:
        kl_credit: dense rewards (``token_reward``, the KL) in ``A_t``: ``to_go`` sums them from the
            token on; ``immediate`` takes the token's own only, as in the authors' code.
        clip: bound on the size of ``R - R(greedy)``, in reward units; 5 in the authors' code.

    Raises:
        ConfigError: a group has no greedy answer.

    Source:
        Li et al. 2023, arXiv:2310.10505 (ReMax), eq. 5.
    """

    keys = {
        "greedy": (
            "B",
            "bool",
            "decoded greedily, as a baseline; not trained on",
            {"example": "first_of_group"},
        )
    }
    reads = ("reward", "reward_valid", "group_id", "greedy", "response_mask")
    writes = ("advantage", "response_mask")
    optional = ("token_reward",)

    def __init__(
        self,
        *,
        kl_credit: Literal["to_go", "immediate"] = "to_go",
        clip: PositiveFloat | None = None,
    ) -> None:
        super().__init__()
        self.kl_credit = kl_credit
        self.clip = clip

    def forward(self, batch: TensorDict) -> TensorDict:
        """Write the advantage, and take the greedy answers out of the response mask."""
        reward, valid = batch["reward"].detach(), batch["reward_valid"]
        baseline, has_baseline = greedy_reward(reward, batch["group_id"], valid, batch["greedy"])
        trainable = ~batch["greedy"] & valid & has_baseline
        lead = masked(masked(reward, valid) - baseline, trainable)
        lead = lead if self.clip is None else lead.clamp(-self.clip, self.clip)
        record("advantage/baseline", baseline, where=batch["greedy"] & valid)
        record("advantage/abs", lead.abs(), where=~batch["greedy"])
        record("advantage/zero_fraction", lead == 0, where=~batch["greedy"])
        per_token = torch.where(trainable[:, None], lead[:, None] + self._dense(batch), 0)
        batch["response_mask"] = batch["response_mask"] & ~batch["greedy"][:, None]
        return write_advantage(batch, per_token)

    def _dense(self, batch: TensorDict) -> Tensor:
        mask = batch["response_mask"]
        if "token_reward" not in batch.keys():
            return torch.zeros(mask.shape, device=mask.device)
        dense = masked(batch["token_reward"].detach(), mask)
        return dense if self.kl_credit == "immediate" else dense.flip(1).cumsum(1).flip(1)
