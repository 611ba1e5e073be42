"""Importance ratios, their distances and their mismatch.

Log ratios and log-probs are in nats, ``[B, T]``. ``sg`` stops the gradient.
"""

from __future__ import annotations

import torch
from torch import Tensor

from rlcomp.errors import NumericalError, ShapeError
from rlcomp.functional.reduction import masked

# Nats. The ratio stays below e^20 = 4.9e8, which float32 holds.
LOG_RATIO_BOUND = 20.0


def log_ratio(log_probs: Tensor, old_log_probs: Tensor, mask: Tensor) -> Tensor:
    """Compute ``log pi - log pi_old`` per token, clamped to [-20, 20]; 0 outside the mask.

    ``old_log_probs`` has no gradient; ``log_probs`` has none beyond the bounds. ShapeError if the
    shapes differ; NumericalError if a log-prob inside the mask is not finite.

    Source: Schulman et al. 2017, arXiv:1707.06347, section 3 (the ratio); the bound is verl's.

    Examples:
        >>> mask = torch.tensor([[True, True, False]])
        >>> old = torch.tensor([[-1.0, -50.0, torch.nan]])
        >>> log_ratio(torch.tensor([[-1.5, -1.0, 0.0]]), old, mask)
        tensor([[-0.5000, 20.0000,  0.0000]])
    """
    if log_probs.shape != old_log_probs.shape or log_probs.shape != mask.shape:
        raise ShapeError(
            f"'log_probs' has shape {list(log_probs.shape)}, 'old_log_probs' "
            f"{list(old_log_probs.shape)}, 'mask' {list(mask.shape)}"
        )
    # Zero both before the subtraction: NaN outside the mask must not reach the gradient.
    mask = mask.bool()
    new, old = masked(log_probs, mask), masked(old_log_probs.detach(), mask)
    for name, values in (("log_probs", new), ("old_log_probs", old)):
        if not bool(values.isfinite().all()):
            row, column = (~values.isfinite()).nonzero()[0].tolist()
            value = float(values.detach()[row, column])
            raise NumericalError(f"'{name}' is {value} at [{row}, {column}]")
    return (new - old).clamp(-LOG_RATIO_BOUND, LOG_RATIO_BOUND)


def sequence_ratio(log_ratio: Tensor, mask: Tensor) -> Tensor:
    """Compute GSPO's ratio ``s_i = exp(mean_t log_ratio_t)`` at each token of row i.

    ``[B, T]``, dimensionless, 1 outside the mask. The gradient in each token's log-prob is
    ``s_i / n_i``.

    Source: Zheng et al. 2025 (GSPO), arXiv:2507.18071, eq. 7.

    Examples:
        >>> mask = torch.tensor([[True, True, False]])
        >>> sequence_ratio(torch.tensor([[0.3, -0.1, 0.0]]), mask)
        tensor([[1.1052, 1.1052, 1.0000]])
    """
    mean = masked(log_ratio, mask).sum(1, keepdim=True) / mask.sum(1, keepdim=True).clamp(min=1)
    return masked(mean, mask).exp()


def sequence_token_ratio(log_ratio: Tensor, mask: Tensor) -> Tensor:
    """Compute GSPO-token's ratio ``sg[s_i] pi_t / sg[pi_t]``; ``s_i`` is :func:`sequence_ratio`.

    ``[B, T]``, dimensionless, 1 outside the mask. The gradient in a token's log-prob is ``s_i``.

    Source: Zheng et al. 2025 (GSPO), arXiv:2507.18071, eq. 14.

    Examples:
        >>> mask = torch.tensor([[True, True, False]])
        >>> sequence_token_ratio(torch.tensor([[0.3, -0.1, 0.0]]), mask)
        tensor([[1.1052, 1.1052, 1.0000]])
    """
    token_factor = masked(log_ratio - log_ratio.detach(), mask).exp()  # value 1, with a gradient
    return sequence_ratio(log_ratio.detach(), mask) * token_factor


def whole_sequence_ratio(log_ratio: Tensor, mask: Tensor) -> Tensor:
    """Compute RLOO's sequence ratio: the product of a row's token ratios, with gradient by token.

    ``sg[r_i] (pi_t / sg[pi_t])^n_i`` with ``r_i = exp(sum_t log_ratio_t)``; ``[B, T]``,
    dimensionless, 1 outside the mask. The sum is clamped to [-20, 20], without a gradient beyond.

    The mean of ``r_it A_t`` over a row has the gradient ``r_i A_t`` in token t's log-prob. If the
    advantages of a row are equal, this is the gradient of ``r_i A_i``; otherwise it is the policy
    gradient with credit by token.

    Source: Ahmadian et al. 2024 (RLOO), arXiv:2402.14740, section 3: a response is one action.

    Examples:
        >>> mask = torch.tensor([[True, True, False]])
        >>> whole_sequence_ratio(torch.tensor([[0.3, -0.1, 0.0]]), mask)
        tensor([[1.2214, 1.2214, 1.0000]])
    """
    total = masked(log_ratio.detach(), mask).sum(1, keepdim=True)
    # Value 0, with a gradient.
    token_term = mask.sum(1, keepdim=True) * (log_ratio - log_ratio.detach())
    return masked(total + token_term, mask).clamp(-LOG_RATIO_BOUND, LOG_RATIO_BOUND).exp()


# Nats per token. In float32 two passes over the same tokens agree to about 1e-7: values nearer than
# this bound are equal.
ROUNDING = 1e-5


def old_policy_kl(ratio: Tensor) -> Tensor:
    """Estimate KL(pi_old || pi) per token by k3 on samples of pi_old: ``r - 1 - log r``, >= 0.

    In nats, in the shape of the ratio. The expectation under the old policy is the KL, and the
    expected gradient is the KL's gradient. ``-log r`` has the same two expectations, but it can be
    negative, and its gradient in the log-prob is -1 at ratio 1, where k3's is 0.

    Source: Schulman et al. 2017, arXiv:1707.06347, eq. 8; estimator k3 of Schulman 2020,
    "Approximating KL divergence".

    Examples:
        >>> old_policy_kl(torch.tensor([[1.0, 2.0]]))
        tensor([[0.0000, 0.3069]])
    """
    return (ratio - 1) - ratio.log()


def log_distance(ratio: Tensor) -> Tensor:
    """Compute the absolute log ratio (KL-Cov): ``|log r|``, with gradient ``sign(log r)``.

    In nats, in the shape of the ratio. Value and gradient are 0 up to 1e-5, the rounding of a
    log-prob: at the old policy the sign of the difference is noise.

    Source: Cui et al. 2025 (KL-Cov), arXiv:2505.22617, section 4.2, as in its code.

    Examples:
        >>> log_distance(torch.tensor([[1.0, 0.5]]))
        tensor([[0.0000, 0.6931]])
    """
    distance = ratio.log().abs()
    return torch.where(distance > ROUNDING, distance, torch.zeros_like(distance))


def effective_sample_size(log_weight: Tensor) -> Tensor:
    """Compute ``(sum w)^2 / (n sum w^2)`` of log-weights ``[n]``, float64; 1 if there are none.

    The result is the effective share of the ``n`` samples, a scalar in [1 / n, 1].

    Source: Kong 1992, "A note on importance sampling using standardized weights".

    Examples:
        >>> effective_sample_size(torch.tensor([3.0, 1.0]).log())
        tensor(0.8000, dtype=torch.float64)
    """
    if not log_weight.numel():
        return torch.ones((), dtype=torch.float64, device=log_weight.device)
    # Scale all weights below 1, so that none overflows; a common factor cancels.
    weight = (log_weight.double() - log_weight.double().max()).exp()
    return weight.sum().square() / (weight.numel() * weight.square().sum())


def sampler_kl(log_weight: Tensor) -> Tensor:
    """Estimate KL(pi_sampler || pi_trainer) by k3 on the sampler's samples: ``exp(d) - 1 - d``.

    ``d = log pi_trainer(a) - log pi_sampler(a)``, any shape; float64, >= 0.

    Source: Schulman 2020, "Approximating KL divergence", k3.

    Examples:
        >>> sampler_kl(torch.tensor([2.0]).log())  # 2 - 1 - log 2
        tensor([0.3069], dtype=torch.float64)
    """
    gap = log_weight.double()
    return torch.expm1(gap) - gap
