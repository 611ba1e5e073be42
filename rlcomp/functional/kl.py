"""KL(policy || reference) per token: sample estimators (k1, k2, k3) and the full-vocabulary KL.

Estimators of ``d = log pi - log ref``, and their expected gradients as a loss on samples of the
policy. ``rho = pi / pi_old``: on-policy its value is 1, but its gradient is not 0.

============  ===================  =======================================
name          value                gradient in expectation
============  ===================  =======================================
``k1``        d                    0
``k2``        d^2 / 2              that of KL(pi || ref)
``k3``        exp(-d) - 1 + d      that of KL(ref || pi)
``abs``       abs(d)               none of these
``k1_plus``   k1                   k2's
``k3_plus``   k3                   k2's
``k1_ratio``  rho d                that of KL(pi || ref)
``k2_ratio``  sg[rho] d^2 / 2      that of KL(pi || ref)
``k3_ratio``  rho k3               that of KL(pi || ref)
============  ===================  =======================================
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from rlcomp.errors import ShapeError
from rlcomp.functional.masked import masked
from rlcomp.functional.ratio import LOG_RATIO_BOUND, log_ratio

Value = Literal["k1", "k2", "k3", "abs"]
Estimator = Literal["k1", "k2", "k3", "abs", "k1_plus", "k3_plus"]
RatioEstimator = Literal["k1_ratio", "k2_ratio", "k3_ratio"]


def kl_estimate(
    log_probs: Tensor, ref_log_probs: Tensor, mask: Tensor, estimator: Estimator
) -> Tensor:
    """Estimate the KL per token from the sampled token: k1, k2, k3 (Schulman 2020).

    k1 and k3 estimate the value without bias; k3 is never negative. As a loss only k2 and the
    straight-through ``k1_plus`` and ``k3_plus`` have the gradient of KL(pi || ref).

    Args:
        log_probs: shape ``[B, T]``, nats.
        ref_log_probs: shape ``[B, T]``, nats.
        mask: shape ``[B, T]``, bool.
        estimator: see the table above.

    Returns:
        Shape ``[B, T]``, nats, 0 outside the mask.

    Source:
        Schulman 2020, "Approximating KL divergence"; the gradients: Tang & Munos 2025,
        arXiv:2506.09477.

    Examples:
        >>> one = torch.ones(1, 1, dtype=torch.bool)
        >>> kl_estimate(torch.tensor([[-2.0]]), torch.tensor([[-2.5]]), one, "k3")
        tensor([[0.1065]])
    """
    d = log_ratio(log_probs, ref_log_probs, mask)
    if estimator in ("k1_plus", "k3_plus"):
        k2 = d**2 / 2
        value = d if estimator == "k1_plus" else _k3(d)
        return value.detach() + k2 - k2.detach()
    if estimator == "k1":
        return d
    if estimator == "abs":
        return d.abs()
    return d**2 / 2 if estimator == "k2" else _k3(d)


def kl_ratio_estimate(
    log_probs: Tensor,
    old_log_probs: Tensor,
    ref_log_probs: Tensor,
    mask: Tensor,
    estimator: RatioEstimator,
) -> Tensor:
    """Estimate the KL with importance weights; ``k3_ratio`` is DeepSeek-V3.2's unbiased KL.

    The ratio has a gradient (except in ``k2_ratio``): on-policy the value equals that of k1 or k3,
    but the gradient differs. With k3 the gradient in the log-prob is ``rho * d``.

    Args:
        log_probs: shape ``[B, T]``, nats.
        old_log_probs: log-probs under the policy that sampled, shape ``[B, T]``, nats.
        ref_log_probs: shape ``[B, T]``, nats.
        mask: shape ``[B, T]``, bool.
        estimator: see the table above. ``k2_ratio`` detaches the ratio, whose gradient would make
            k2's gradient wrong.

    Returns:
        Shape ``[B, T]``, nats, 0 outside the mask.

    Source:
        DeepSeek-AI 2025, arXiv:2512.02556, section 3.1, "unbiased KL estimate" (``k3_ratio``).

    Examples:
        >>> one = torch.ones(1, 1, dtype=torch.bool)
        >>> new, old, ref = torch.tensor([[-1.0]]), torch.tensor([[-1.2]]), torch.tensor([[-0.8]])
        >>> kl_ratio_estimate(new, old, ref, one, "k3_ratio")
        tensor([[0.0261]])
    """
    ratio = log_ratio(log_probs, old_log_probs, mask).exp()
    d = log_ratio(log_probs, ref_log_probs, mask)
    if estimator == "k2_ratio":
        return ratio.detach() * d**2 / 2
    return ratio * (d if estimator == "k1_ratio" else _k3(d))


def _k3(d: Tensor) -> Tensor:
    return torch.exp(-d) - 1 + d


def kl_full(log_distribution: Tensor, ref_log_distribution: Tensor, mask: Tensor) -> Tensor:
    """Compute the full-vocabulary KL at every token.

    ``KL_t = sum_v pi(v|s_t) (log pi(v|s_t) - log pi_ref(v|s_t))``.

    Args:
        log_distribution: log-probs of all tokens, shape ``[B, T, V]``, nats, with gradient; an
            impossible token has ``-inf`` or the dtype's least number.
        ref_log_distribution: log-probs of the reference, shape ``[B, T, V]``, nats.
        mask: shape ``[B, T]``, bool.

    Returns:
        Shape ``[B, T]``, nats, 0 outside the mask.

    Raises:
        ShapeError: the shapes of the tensors do not match.

    Source:
        Kullback & Leibler 1951, "On information and sufficiency", eq. 2.4.

    Examples:
        >>> one = torch.ones(1, 1, dtype=torch.bool)
        >>> policy, reference = torch.tensor([[[0.5, 0.5]]]), torch.tensor([[[0.25, 0.75]]])
        >>> kl_full(policy.log(), reference.log(), one)
        tensor([[0.1438]])
    """
    if log_distribution.shape != ref_log_distribution.shape or (
        log_distribution.shape[:2] != mask.shape
    ):
        raise ShapeError(
            f"'log_distribution' has shape {list(log_distribution.shape)}, 'ref_log_distribution' "
            f"{list(ref_log_distribution.shape)}, 'mask' {list(mask.shape)}"
        )
    # 0 * inf is NaN, in the value and in the gradient: impossible tokens leave both sides.
    suppressed_tokens = log_distribution <= torch.finfo(log_distribution.dtype).min
    drawn = mask.bool()[..., None] & ~suppressed_tokens
    new, ref = masked(log_distribution, drawn), masked(ref_log_distribution.detach(), drawn)
    d = (new - ref).clamp(-LOG_RATIO_BOUND, LOG_RATIO_BOUND)
    return (masked(new.exp(), drawn) * d).sum(-1)
