"""Whitened advantages."""

from __future__ import annotations

from typing import Literal

from tensordict import TensorDict

from rlcomp.component import Component
from rlcomp.functional.group_statistics import Groups
from rlcomp.functional.moments import whiten
from rlcomp.functional.returns import reward_to_go
from rlcomp.interfaces.advantage import broadcast, rewards_per_token, write_advantage


class BatchWhitening(Component):
    """REINFORCE++ advantage.

    ``A_t = (G_t - mean(G)) / sqrt(var(G) + 1e-8)`` with ``G_t = sum_{s >= t} r_s``; mean and
    unbiased variance over all response tokens of the batch.

    With ``kl=in_token_reward`` the return includes the KL penalties of this and all later tokens.
    Tool output inside a response does not interrupt the return.

    Reads ``reward``, ``reward_valid`` ``[B]``, ``response_mask`` ``[B, T]``. Writes ``advantage``
    ``[B, T]``: 0 for invalid rewards, and 0 for all rows if all returns are equal.

    Source:
        Hu et al. 2025 (REINFORCE++), arXiv:2501.03262, eq. 6 and 7.
    """

    reads = ("reward", "reward_valid", "response_mask")
    writes = ("advantage",)
    # ``step_end`` is not read: it tells the check of stages that the return includes the rewards of
    # steps.
    optional = ("token_reward", "step_end")

    def forward(self, batch: TensorDict) -> TensorDict:
        """Write the advantage."""
        mask = batch["response_mask"] & batch["reward_valid"][:, None]
        returns = reward_to_go(rewards_per_token(batch), mask, gamma=1.0)
        return write_advantage(batch, whiten(returns, mask))


class GroupWhitening(Component):
    """REINFORCE++-baseline advantage.

    ``A_i = (c_i - mean(c)) / sqrt(var(c) + 1e-8)`` with ``c_i = R_i - mean_g(R)``; mean and
    unbiased variance over all response tokens of the batch.

    The statistics are over tokens: long responses count more. A group of equal rewards has
    ``c = 0`` and the small advantage ``-mean(c) / sqrt(var(c) + 1e-8)``; if all groups have equal
    rewards, every advantage is exactly 0. Groups of one are excluded from the statistics and get 0.

    With ``over: responses`` each response counts once (Magistral). With ``over: tokens`` a dense
    reward-to-go is added to ``c_i`` before whitening.

    Reads ``reward``, ``reward_valid``, ``group_id`` ``[B]``, ``response_mask`` ``[B, T]``, and
    ``token_reward`` ``[B, T]`` if present. Writes ``advantage`` ``[B, T]``: 0 in groups of one and
    for invalid rewards.

    Args:
        over: the units of the statistics, ``tokens`` or ``responses``. ``responses`` adds dense
            rewards (``token_reward``) without whitening.

    Source:
        Hu et al. 2025 (REINFORCE++), arXiv:2501.03262, section 3.2; responses: Mistral 2025
        (Magistral), arXiv:2506.10910, section 2.1.
    """

    reads = ("reward", "reward_valid", "group_id", "response_mask")
    writes = ("advantage",)
    optional = ("token_reward",)
    min_group_size = 2

    def __init__(self, *, over: Literal["tokens", "responses"] = "tokens") -> None:
        super().__init__()
        self.over = over

    def forward(self, batch: TensorDict) -> TensorDict:
        """Write the advantage."""
        groups = Groups(batch["reward"], batch["group_id"], batch["reward_valid"])
        device = batch["reward"].device
        centred = groups.centred().to(device)
        has_peers = (groups.valid & (groups.count >= 2)).to(device)
        if self.over == "responses":
            return broadcast(batch, whiten(centred[:, None], has_peers[:, None])[:, 0])
        # Adds the dense rewards; the metrics that it records are of advantages before whitening.
        broadcast(batch, centred)
        mask = batch["response_mask"] & has_peers[:, None]
        return write_advantage(batch, whiten(batch["advantage"], mask))
