"""From one number per response to one per token."""

from __future__ import annotations

from tensordict import TensorDict
from torch import Tensor

from rlcomp.component import masked
from rlcomp.run.record import record


def broadcast(batch: TensorDict, advantage: Tensor) -> TensorDict:
    """Write ``advantage`` ``[B]`` onto every token of the response, detached, 0 elsewhere.

    Dense rewards (``token_reward``, where a stage wrote them: KL in the reward) are no part of the
    baseline: each token is credited with those from it on.

    Records the mean size and the share of responses that carry no signal.
    """
    mask = batch["response_mask"]
    record("advantage/abs", advantage.abs())
    record("advantage/zero_fraction", advantage == 0)
    per_token = advantage.detach()[:, None].expand(mask.shape)
    if "token_reward" in batch.keys():
        dense = masked(batch["token_reward"].detach(), mask)
        per_token = per_token + dense.flip(1).cumsum(1).flip(1)
    return put_advantage(batch, per_token)


def put_advantage(batch: TensorDict, advantage: Tensor) -> TensorDict:
    """Write ``advantage`` ``[B, T]``, detached, 0 outside the response and for invalid rewards."""
    mask = batch["response_mask"]
    if "reward_valid" in batch.keys():
        mask = mask & batch["reward_valid"][:, None]
    batch["advantage"] = masked(advantage.detach(), mask)
    return batch


def rewards_per_token(batch: TensorDict) -> Tensor:
    """The outcome on the last token of the response, and dense rewards where a stage wrote them.

    Returns:
        Shape ``[B, T]``, detached, 0 outside the response and for invalid rewards.
    """
    mask, reward = batch["response_mask"], batch["reward"].detach()
    last = mask & (mask.flip(1).cumsum(1).flip(1) == 1)
    rewards = masked(reward[:, None].expand(mask.shape), last & batch["reward_valid"][:, None])
    if "token_reward" in batch.keys():
        rewards = rewards + masked(batch["token_reward"].detach(), mask)
    return rewards
