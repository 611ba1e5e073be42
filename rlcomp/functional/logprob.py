"""Log-probabilities of taken tokens, and entropy."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from rlcomp.generation.sampling import Sampling, at_temperature, kept


def token_log_probs(logits: Tensor, tokens: Tensor, sampling: Sampling) -> Tensor:
    """Log-probability of each taken token under the distribution that samples.

    The taken token is always in the kept set: at sampling time it was, and a policy that has moved
    so that its filter would now drop the token gets a finite log-prob instead of ``-inf``. Greedy
    sampling is a point mass on what it took: log-prob 0, without gradient.

    Args:
        logits: shape ``[N, V]``, before the temperature.
        tokens: shape ``[N]``, int64.
        sampling: temperature and filters.

    Returns:
        Shape ``[N]``, nats, float32 at least.

    Examples:
        >>> logits = torch.tensor([[2.0, 2.0, 0.0]])
        >>> token_log_probs(logits, torch.tensor([1]), Sampling(top_k=2))
        tensor([-0.6931])
    """
    if sampling.temperature == 0:
        return torch.zeros_like(at_temperature(logits[:, 0], 1.0))
    scaled = at_temperature(logits, sampling.temperature)
    if sampling.truncates:
        keep = kept(scaled, sampling).scatter(-1, tokens[:, None], True)
        scaled = scaled.masked_fill(~keep, -torch.inf)
    return -F.cross_entropy(scaled, tokens, reduction="none")


def entropy(logits: Tensor, temperature: float) -> Tensor:
    """Entropy of the distribution at a temperature, before any filter.

    Args:
        logits: shape ``[N, V]``; ``-inf`` marks impossible tokens.
        temperature: divides the logits; at 0 the entropy is 0.

    Returns:
        Shape ``[N]``, nats, float32 at least.

    Examples:
        >>> entropy(torch.zeros(1, 4), 1.0)
        tensor([1.3863])
    """
    if temperature == 0:
        return torch.zeros_like(at_temperature(logits[:, 0], 1.0))
    log_probs = at_temperature(logits, temperature).log_softmax(-1)
    # 0 * -inf is NaN, in the value and in the gradient: replace the factor, not the product.
    finite = log_probs.masked_fill(log_probs == -torch.inf, 0.0)
    return -(log_probs.exp() * finite).sum(-1)
