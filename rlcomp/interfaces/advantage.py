"""Functions of advantage estimators: token rewards, broadcasting, writing ``advantage``."""

from __future__ import annotations

from collections.abc import Callable

import torch
from tensordict import TensorDict
from torch import Tensor

from rlcomp.functional.reduction import masked
from rlcomp.interfaces.turns import episode_index
from rlcomp.metrics import record


def broadcast(batch: TensorDict, advantage: Tensor) -> TensorDict:
    """Broadcast a response-level advantage ``[B]`` to its tokens; add the dense rewards-to-go.

    ``A_it = A_i + sum_{s >= t} r_is`` with ``r`` = ``token_reward`` (such as the KL penalty), if a
    stage wrote it. Dense rewards are not part of the baseline.

    Records ``advantage/abs``, the mean absolute advantage of a response token, and
    ``advantage/zero_fraction``, the share of non-empty responses whose advantage is 0 at every
    token. Both count responses without a valid reward, whose advantage is 0.

    Raises:
        KeyError: the batch has no ``response_mask``.
        TypeError: the advantage is not a tensor.
        ValueError: its shape is not ``[B]``.
    """
    mask = _response_mask(batch)
    _check_shape(
        advantage, mask.shape[:1], "B", "a number for each response; of [B, 1] take x[:, 0]"
    )
    batch = write_advantage(batch, advantage.detach()[:, None] + rewards_to_go(batch))
    rows = mask.any(1)
    record("advantage/abs", batch["advantage"].abs(), where=mask)
    record("advantage/zero_fraction", (batch["advantage"] == 0).all(1), where=rows)
    return batch


def per_episode(batch: TensorDict, estimate: Callable[[Tensor, Tensor, Tensor], Tensor]) -> Tensor:
    """Estimate a response-level advantage; an episode counts once, in any number of rows.

    Rows of one episode (``trajectory_id``) have the same reward, validity and group.

    Args:
        batch: holds ``reward``, ``group_id``, ``reward_valid`` ``[B]``.
        estimate: computes each episode's advantage from these three, shape ``[E]`` each.

    Returns:
        Shape ``[B]``. Without ``trajectory_id`` every row is an episode.
    """
    entries = batch["reward"], batch["group_id"], batch["reward_valid"]
    if "trajectory_id" not in batch.keys():
        return estimate(*entries)
    episode, first = episode_index(batch)
    return estimate(*(entry[first] for entry in entries))[episode]


def rewards_to_go(batch: TensorDict) -> Tensor:
    """Compute the undiscounted reward-to-go of the dense rewards (``token_reward``), if any.

    Returns:
        Shape ``[B, T]``, detached; 0 without dense rewards.
    """
    mask = batch["response_mask"]
    if "token_reward" not in batch.keys():
        return torch.zeros(mask.shape, device=mask.device)
    dense = masked(batch["token_reward"].detach(), mask)
    return dense.flip(1).cumsum(1).flip(1)


def write_advantage(batch: TensorDict, advantage: Tensor) -> TensorDict:
    """Write ``advantage`` ``[B, T]``, detached, 0 outside the response and for invalid rewards.

    Raises:
        KeyError: the batch has no ``response_mask``.
        TypeError: the advantage is not a tensor.
        ValueError: its shape is not ``[B, T]``.
    """
    mask = _response_mask(batch)
    _check_shape(
        advantage, mask.shape, "B, T", "a number for each token; broadcast(batch, x) takes [B]"
    )
    if "reward_valid" in batch.keys():
        mask = mask & batch["reward_valid"][:, None]
    batch["advantage"] = masked(advantage.detach(), mask)
    return batch


def _response_mask(batch: TensorDict) -> Tensor:
    if "response_mask" not in batch.keys():
        known = ", ".join(sorted(map(str, batch.keys())))
        raise KeyError(
            f"the batch has no 'response_mask' (known: {known}): name it in reads, and set it, "
            "bool [B, T], true on the tokens of the response"
        )
    mask: Tensor = batch["response_mask"]
    return mask


def _check_shape(advantage: Tensor, shape: torch.Size, axes: str, remedy: str) -> None:
    """Refuse an advantage of another shape, which would be broadcast silently."""
    if not isinstance(advantage, Tensor):
        raise TypeError(f"advantage is a {type(advantage).__name__}: must be a tensor [{axes}]")
    if advantage.shape != shape:
        raise ValueError(
            f"advantage has shape {list(advantage.shape)}: must be [{axes}], here {list(shape)}, "
            f"{remedy}"
        )


def rewards_per_token(batch: TensorDict) -> Tensor:
    """Return token rewards: the outcome on the last response token, plus dense rewards, if any.

    Returns:
        Shape ``[B, T]``, in reward units, detached, 0 outside the response. The outcome is 0 for an
        invalid reward; dense rewards stay.
    """
    mask, reward = batch["response_mask"], batch["reward"].detach()
    # The sum from the end counts the response tokens that are left: 1 at the last one.
    last = mask & (mask.flip(1).cumsum(1).flip(1) == 1)
    rewards = masked(reward[:, None].expand(mask.shape), last & batch["reward_valid"][:, None])
    if "token_reward" in batch.keys():
        rewards = rewards + masked(batch["token_reward"].detach(), mask)
    return rewards
