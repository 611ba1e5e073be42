"""From one number per response to one per token."""

from __future__ import annotations

import torch
from tensordict import TensorDict
from torch import Tensor

from rlcomp.run.record import record


def broadcast(batch: TensorDict, advantage: Tensor) -> TensorDict:
    """Write ``advantage`` ``[B]`` onto every token of the response, detached, 0 elsewhere.

    Records the mean size and the share of responses that carry no signal.
    """
    mask = batch["response_mask"]
    per_token = advantage.detach()[:, None].expand(mask.shape)
    batch["advantage"] = torch.where(mask, per_token, torch.zeros_like(per_token))
    record("advantage/abs", advantage.abs())
    record("advantage/zero_fraction", advantage == 0)
    return batch
