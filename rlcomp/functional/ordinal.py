"""Ordinal regression: the proportional-odds model of ordered categories."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor


def uniform_thresholds(levels: int) -> list[float]:
    """Return thresholds under which a score of 0 makes all categories equally likely.

    ``theta_k = log(k / (K - k))``, k = 1 to K - 1.

    Args:
        levels: K, at least 2.

    Examples:
        >>> [round(theta, 4) for theta in uniform_thresholds(4)]
        [-1.0986, 0.0, 1.0986]
    """
    return [math.log(k / (levels - k)) for k in range(1, levels)]


def ordinal_log_probs(score: Tensor, first: Tensor, gaps: Tensor) -> Tensor:
    """Compute log-probabilities of ordered categories (cumulative logit, proportional odds).

    ``P(y <= k) = s(theta_k - r)``, so that ``P(y = k) = s(theta_k - r) - s(theta_(k-1) - r)``:
    a score moves all cumulative log-odds alike.

    Args:
        score: ``r``, shape ``[N]``.
        first: ``theta_1``, a scalar.
        gaps: ``theta_(k+1) - theta_k``, all above 0, shape ``[K - 2]``.

    Returns:
        Shape ``[N, K]``, nats; finite even where the difference of the two is 0 in floating point.

    Source:
        McCullagh 1980, "Regression models for ordinal data", Journal of the Royal Statistical
        Society B 42(2), section 2.

    Examples:
        >>> level = ordinal_log_probs(torch.zeros(1), torch.tensor(-1.0986), torch.tensor([2.1972]))
        >>> level.exp()
        tensor([[0.2500, 0.5000, 0.2500]])
    """
    thresholds = first + F.pad(gaps.cumsum(0), (1, 0))
    below = thresholds - score[:, None]  # [N, K - 1]
    # The difference is s(b) - s(a) = s(b) s(-a) (1 - e^(a - b)).
    at_most, above = F.logsigmoid(below), F.logsigmoid(-below)
    inner = at_most[:, 1:] + above[:, :-1] + torch.log(-torch.expm1(-gaps))
    return torch.cat([at_most[:, :1], inner, above[:, -1:]], 1)
