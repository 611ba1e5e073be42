"""Top-k next-token entropy (the position filter of RPT)."""

from __future__ import annotations

import torch
from torch import Tensor


def top_entropy(logits: Tensor, k: int, renormalise: bool) -> Tensor:
    """Compute the entropy over the top-k tokens.

    Args:
        logits: logits or log-probs, shape ``[..., V]``; ``-inf`` marks impossible tokens. All
            tokens count if there are fewer than ``k``.
        k: number of tokens, at least 1.
        renormalise: scale the ``k`` probabilities to sum 1, so that the result is at most ``ln k``;
            otherwise ``-sum p ln p`` of the probabilities as they are.

    Returns:
        Shape ``[...]``, nats, float32 at least; at least 0.

    Source:
        RPT, arXiv:2506.08007: the 16 likeliest tokens; the paper does not say if they sum to 1.

    Examples:
        >>> log_probs = torch.tensor([0.4, 0.3, 0.2, 0.1]).log()
        >>> top_entropy(log_probs, 2, renormalise=True)
        tensor(0.6829)
    """
    exact = logits.float() if logits.dtype.itemsize < 4 else logits
    likeliest = exact.topk(min(k, exact.shape[-1]), -1).values
    total = likeliest if renormalise else exact
    log_probs = likeliest - total.logsumexp(-1, keepdim=True)
    # 0 * -inf is NaN.
    shares = torch.where(log_probs == -torch.inf, 0.0, log_probs.exp() * log_probs)
    return -shares.sum(-1)
