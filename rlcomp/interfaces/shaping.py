"""Shared functions of reward shaping: response length, writing the shaped reward."""

from __future__ import annotations

import torch
from tensordict import TensorDict
from torch import Tensor

from rlcomp.functional.masked import masked
from rlcomp.metrics import record


def response_length(batch: TensorDict) -> Tensor:
    """Count the sampled tokens of each response, EOS included, tool output excluded.

    Returns:
        Shape ``[B]``, float32, or float64 if the reward is.
    """
    dtype = torch.promote_types(batch["reward"].dtype, torch.float32)
    length: Tensor = batch["response_mask"].sum(1).to(dtype)
    return length


def write_shaped_reward(batch: TensorDict, name: str, part: Tensor, reward: Tensor) -> TensorDict:
    """Write a shaped reward and the shaper's contribution; 0 where not valid.

    Records ``reward/<name>`` and ``reward/shaped``, over valid rows.

    Args:
        batch: gets ``reward`` and a new ``rewards`` with the part in it.
        name: name of the part.
        part: shape ``[B]``, in reward units.
        reward: shape ``[B]``, the reward for later stages.

    Returns:
        The batch.
    """
    valid = batch["reward_valid"]
    part, reward = masked(part, valid), masked(reward, valid)
    batch["reward"] = reward
    batch["rewards"] = batch["rewards"].copy().set(name, part)
    record(f"reward/{name}", part, where=valid)
    record("reward/shaped", reward, where=valid)
    return batch
