"""Divergences between policies, and entropies.

Log-probs are in nats, ``[B, T]``. Each estimator is a function of ``d = log pi - log ref``. The
last column names the function whose gradient an estimator has in expectation, as a loss on samples
of the policy. ``rho = pi / pi_old``: on-policy its value is 1, but its gradient is not 0; ``sg``
stops the gradient.

============  ===================  ========================
name          value                expected gradient of
============  ===================  ========================
``k1``        d                    a constant (0)
``k2``        d^2 / 2              KL(pi || ref)
``k3``        exp(-d) - 1 + d      KL(ref || pi)
``abs``       abs(d)               neither KL
``k1_plus``   d                    KL(pi || ref), as k2
``k3_plus``   exp(-d) - 1 + d      KL(pi || ref), as k2
``k1_ratio``  rho d                KL(pi || ref)
``k2_ratio``  sg[rho] d^2 / 2      KL(pi || ref)
``k3_ratio``  rho k3               KL(pi || ref)
============  ===================  ========================
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from rlcomp.errors import ShapeError
from rlcomp.functional.ratio import LOG_RATIO_BOUND, log_ratio
from rlcomp.functional.reduction import masked

Value = Literal["k1", "k2", "k3", "abs"]
Estimator = Literal["k1", "k2", "k3", "abs", "k1_plus", "k3_plus"]
RatioEstimator = Literal["k1_ratio", "k2_ratio", "k3_ratio"]


def kl_estimate(
    log_probs: Tensor, ref_log_probs: Tensor, mask: Tensor, estimator: Estimator
) -> Tensor:
    """Estimate KL(pi || ref) per token from the sampled token, in nats; 0 outside the mask.

    ``d`` is :func:`rlcomp.functional.ratio.log_ratio`, clamped to [-20, 20]; the reference has no
    gradient. k1 and k3 estimate the value without bias; k3 is never negative. As a loss only k2 and
    the straight-through ``k1_plus`` and ``k3_plus`` have the gradient of KL(pi || ref).
    ShapeError if the shapes differ; NumericalError if a log-prob inside the mask is not finite.

    Source: Schulman 2020, "Approximating KL divergence"; the gradients: Tang & Munos 2025,
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

    ``[B, T]``, nats, 0 outside the mask; both log ratios are clamped to [-20, 20], and errors are
    as in :func:`kl_estimate`. The ratio ``rho`` has a gradient, but not in ``k2_ratio``: there a
    gradient through ``rho`` would be added to the gradient of the KL. On-policy ``k1_ratio``,
    ``k2_ratio`` and ``k3_ratio`` have the values of k1, k2 and k3, but ``k1_ratio`` and
    ``k3_ratio`` have other gradients: the gradient of ``k3_ratio`` in the log-prob is ``rho d``.

    Source: DeepSeek-AI 2025, arXiv:2512.02556, section 3.1, "unbiased KL estimate" (``k3_ratio``).

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
    """Compute ``KL_t = sum_v pi(v|s_t) (log pi(v|s_t) - log pi_ref(v|s_t))`` at every token.

    Distributions are log-probs ``[B, T, V]``; an impossible token has ``-inf`` or the dtype's least
    number. The log-ratio of a token is clamped to [-20, 20]; the reference has no gradient. The
    result is ``[B, T]``, nats, 0 outside the mask. ShapeError if the shapes do not match.

    Source: Kullback & Leibler 1951, "On information and sufficiency", eq. 2.4.

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
    possible = mask.bool()[..., None] & ~suppressed_tokens
    new, ref = masked(log_distribution, possible), masked(ref_log_distribution.detach(), possible)
    d = (new - ref).clamp(-LOG_RATIO_BOUND, LOG_RATIO_BOUND)
    return (masked(new.exp(), possible) * d).sum(-1)


# Probabilities are clamped this far from 0 and 1, where the logs of a KL are infinite. Float32 can
# tell 1 - _EDGE from 1.
_EDGE = 1e-7


def binary_total_variation(old_log_probs: Tensor, log_probs: Tensor) -> Tensor:
    """Compute the total variation of "this token or another": ``|pi(a) - pi_old(a)|``.

    It is a lower bound of the total variation of the whole distributions. The result has the shape
    of the log-probs and is in [0, 1].

    Source: Qi et al. 2026 (DPPO), arXiv:2602.04879, Binary-TV.

    Examples:
        >>> binary_total_variation(torch.tensor([[0.25]]).log(), torch.tensor([[0.5]]).log())
        tensor([[0.2500]])
    """
    return (log_probs.exp() - old_log_probs.exp()).abs()


def binary_kl(old_log_probs: Tensor, log_probs: Tensor) -> Tensor:
    """Compute ``KL(pi_old || pi)`` of "this token or another", in nats.

    ``p_old log(p_old / p) + (1 - p_old) log((1 - p_old) / (1 - p))``: a lower bound of the KL of
    the whole distributions. The result has the shape of the log-probs. Probabilities are clamped to
    ``[1e-7, 1 - 1e-7]``.

    Source: Qi et al. 2026 (DPPO), arXiv:2602.04879, Binary-KL.

    Examples:
        >>> binary_kl(torch.tensor([[0.25]]).log(), torch.tensor([[0.5]]).log())
        tensor([[0.1308]])
    """
    old, new = (values.exp().clamp(_EDGE, 1 - _EDGE) for values in (old_log_probs, log_probs))
    return old * (old.log() - new.log()) + (1 - old) * (torch.log1p(-old) - torch.log1p(-new))


def top_entropy(logits: Tensor, k: int, renormalise: bool) -> Tensor:
    """Compute the entropy over the ``k`` likeliest of ``[..., V]`` tokens, ``[...]``, in nats.

    ``-inf`` marks impossible tokens. The result is at least float32. With ``renormalise`` the ``k``
    probabilities are scaled to sum 1, so that the result is at most ``ln k``; otherwise they enter
    ``-sum p ln p`` as they are.

    Source: RPT, arXiv:2506.08007: the 16 likeliest tokens; the paper does not say if they sum to 1.

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
