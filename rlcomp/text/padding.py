"""Right padding: rows of prompt and response as rectangular tensors."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from rlcomp.engine.draw import Sampled
from rlcomp.functional.masked import masked


def padded(rows: Sequence[Sequence[int]], pad: int) -> tuple[Tensor, Tensor]:
    """Right-pad rows to one tensor.

    Returns:
        The ids, shape ``[B, T]``, int64, and the mask of real tokens, shape ``[B, T]``, bool.

    Examples:
        >>> padded([[5], [6, 7]], 0)[0]
        tensor([[5, 0],
                [6, 7]])
    """
    width = max(len(row) for row in rows)
    tokens = torch.tensor([[*row, *[pad] * (width - len(row))] for row in rows])
    lengths = torch.tensor([len(row) for row in rows])
    return tokens, torch.arange(width) < lengths[:, None]


def response_columns(
    prompts: Sequence[Sequence[int]], sampled: Sampled, pad: int
) -> dict[str, Tensor]:
    """Return the per-token entries of sampled rows.

    The end of a response follows from its length, never from the ids in it: the pad id may be EOS,
    and may be sampled.

    Args:
        prompts: ``B`` lists of ids, one for each sampled row.
        sampled: the samples of the model.
        pad: the padding id.

    Returns:
        ``tokens``, ``attention_mask``, ``response_mask``, ``rollout_log_probs``, shape ``[B, T]``
        with ``T`` the longest row; ``sampling_mask`` ``[B, T, ceil(V / 8)]`` if masks were
        recorded.
    """
    device, steps = sampled.tokens.device, sampled.tokens.shape[1]
    starts = torch.tensor([len(prompt) for prompt in prompts], device=device)[:, None]
    ends = starts + sampled.lengths[:, None]
    width = int(ends.max())
    tokens = padded([[*prompt, *[pad] * steps] for prompt in prompts], pad)[0][:, :width]
    position = torch.arange(width, device=device)
    response = (position >= starts) & (position < ends)
    taken = (position - starts).clamp(0, steps - 1)
    columns = {
        "tokens": torch.where(response, sampled.tokens.gather(1, taken), tokens.to(device)),
        "attention_mask": position < ends,
        "response_mask": response,
        "rollout_log_probs": masked(sampled.log_probs.gather(1, taken), response),
    }
    if sampled.kept is not None:
        where = taken[..., None].expand(-1, -1, sampled.kept.shape[-1])
        columns["sampling_mask"] = masked(sampled.kept.gather(1, where), response[..., None])
    return columns
