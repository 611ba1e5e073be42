"""Log-probabilities of taken tokens, and entropy."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from rlcomp.engine.decoding import Sampling, at_temperature, kept
from rlcomp.engine.sampling_mask import unpack

# Nats: the exponential is exactly 0 in every precision.
_NEVER = -1e4


def token_log_probs(
    logits: Tensor,
    tokens: Tensor,
    sampling: Sampling,
    barred: Tensor | None = None,
    recorded: Tensor | None = None,
) -> Tensor:
    """Log-probability of each taken token under the distribution that samples.

    The taken token is always in the kept set: at sampling time it was, and a policy that has moved
    so that its filter would now drop the token gets a finite log-prob instead of ``-inf``. Greedy
    sampling is a point mass on what it took: log-prob 0, without gradient.

    Args:
        logits: shape ``[N, V]``, before the temperature.
        tokens: shape ``[N]``, int64.
        sampling: temperature and filters.
        barred: tokens that are never drawn, shape ``[V]``, bool.
        recorded: the tokens each was drawn from, to renormalise over, shape ``[N, ceil(V / 8)]``,
            uint8; holds the taken one. None for the set that the filters give here.

    Returns:
        Shape ``[N]``, nats, float32 at least.

    Source:
        recorded sets: DeepSeek-V3.2 2025, arXiv:2512.02556, section 3.1 (keep sampling mask).

    Examples:
        >>> logits = torch.tensor([[2.0, 2.0, 0.0]])
        >>> token_log_probs(logits, torch.tensor([1]), Sampling(top_k=2))
        tensor([-0.6931])
    """
    if sampling.temperature == 0:
        return torch.zeros_like(at_temperature(logits[:, 0], 1.0))
    scaled = _scaled(logits, tokens, sampling, barred, recorded)
    return -F.cross_entropy(scaled, tokens, reduction="none")


def token_log_probs_slope(
    gradient: Tensor,
    logits: Tensor,
    tokens: Tensor,
    sampling: Sampling,
    barred: Tensor | None = None,
    recorded: Tensor | None = None,
) -> Tensor:
    """The gradient of :func:`token_log_probs` with respect to the logits, in closed form.

    ``d log p(a) / d z_v = (1[v = a] - p_v) / T``, with ``p`` over the tokens that have a share.

    Args:
        gradient: with respect to the log-probs, shape ``[N]``.
        logits: shape ``[N, V]``, before the temperature, which is above 0.
        tokens: shape ``[N]``, int64.
        sampling: as in :func:`token_log_probs`.
        barred: as in :func:`token_log_probs`.
        recorded: as in :func:`token_log_probs`.

    Returns:
        Shape ``[N, V]``, float32 at least.

    Source:
        Bridle 1990, "Probabilistic interpretation of feedforward classification network outputs",
        section 3: the derivative of a softmax.

    Examples:
        >>> logits, tokens = torch.zeros(1, 2), torch.tensor([1])
        >>> token_log_probs_slope(torch.ones(1), logits, tokens, Sampling(temperature=0.5))
        tensor([[-1.,  1.]])
    """
    share = (gradient / sampling.temperature)[:, None]
    probs = _scaled(logits, tokens, sampling, barred, recorded).softmax(-1)
    return probs.mul_(-share).scatter_add_(-1, tokens[:, None], share)


def squared_probs(
    logits: Tensor,
    tokens: Tensor,
    sampling: Sampling,
    barred: Tensor | None = None,
    recorded: Tensor | None = None,
) -> Tensor:
    """The sum over the vocabulary of the squared probabilities: how often two draws agree.

    Of the same distribution as :func:`token_log_probs`; of a greedy one it is 1.

    Args:
        logits: shape ``[N, V]``, before the temperature.
        tokens: taken, shape ``[N]``, int64.
        sampling: temperature and filters.
        barred: tokens that are never drawn, shape ``[V]``, bool.
        recorded: as in :func:`token_log_probs`.

    Returns:
        Shape ``[N]``, dimensionless, between 1/V and 1, float32 at least.

    Source:
        Li et al. 2026, The Optimal Token Baseline, PMLR 306, as in verl: a term of the squared norm
        of the score.

    Examples:
        >>> squared_probs(torch.zeros(1, 4), torch.tensor([0]), Sampling())
        tensor([0.2500])
    """
    if sampling.temperature == 0:
        return torch.ones_like(at_temperature(logits[:, 0], 1.0))
    return _scaled(logits, tokens, sampling, barred, recorded).softmax(-1).square().sum(-1)


def _scaled(
    logits: Tensor,
    tokens: Tensor,
    sampling: Sampling,
    barred: Tensor | None,
    recorded: Tensor | None,
) -> Tensor:
    """Logits at the temperature, ``-inf`` where a token has no share."""
    scaled = at_temperature(logits, sampling.temperature)
    if recorded is not None:
        return _where(unpack(recorded, scaled.shape[-1]), scaled)
    keep = _kept_or_taken(scaled.detach(), tokens, sampling, barred)
    return scaled if keep is None else _where(keep, scaled)


def _where(keep: Tensor, scaled: Tensor) -> Tensor:
    # Twice as fast as masked_fill on a CPU.
    return torch.where(keep, scaled, -torch.inf)


def _kept_or_taken(
    scaled: Tensor, tokens: Tensor, sampling: Sampling, barred: Tensor | None
) -> Tensor | None:
    """Which tokens have a share, shape ``[N, V]``, or ``[V]`` for all rows; None if all have."""
    if sampling.truncates:
        keep = kept(scaled if barred is None else _where(~barred, scaled), sampling)
    elif barred is None:
        return None
    elif not bool(barred[tokens].any()):
        return ~barred
    else:
        keep = ~barred.expand_as(scaled)
    return keep.scatter(-1, tokens[:, None], True)


def entropy(logits: Tensor, temperature: float, barred: Tensor | None = None) -> Tensor:
    """Entropy of the distribution at a temperature, before any filter.

    Args:
        logits: shape ``[N, V]``; ``-inf`` marks impossible tokens.
        temperature: divides the logits; at 0 the entropy is 0.
        barred: tokens that are never drawn, shape ``[V]``, bool.

    Returns:
        Shape ``[N]``, nats, float32 at least.

    Source:
        Shannon 1948, "A mathematical theory of communication", section 6.

    Examples:
        >>> entropy(torch.zeros(1, 4), 1.0)
        tensor([1.3863])
    """
    if temperature == 0:
        return torch.zeros_like(at_temperature(logits[:, 0], 1.0))
    scaled = at_temperature(logits, temperature)
    if barred is not None:
        scaled = _where(~barred, scaled)
    log_probs = scaled.log_softmax(-1)
    # 0 * -inf is NaN, in the value and in the gradient: bound the factor, not the product.
    finite = log_probs.clamp(min=_NEVER)
    return -(log_probs.exp() * finite).sum(-1)


def log_distribution(logits: Tensor, temperature: float, barred: Tensor | None = None) -> Tensor:
    """Log-probs of all tokens at a temperature, before any filter.

    Args:
        logits: shape ``[N, V]``.
        temperature: divides the logits; at 0 the largest has all of the probability.
        barred: tokens that are never drawn, shape ``[V]``, bool.

    Returns:
        Shape ``[N, V]``, nats, float32 at least; the least finite number where a token is never
        drawn, so that differences stay finite.

    Source:
        Kullback & Leibler 1951, "On information and sufficiency", eq. 2.4: the densities of the
        exact KL.

    Examples:
        >>> log_distribution(torch.zeros(1, 2), 1.0)
        tensor([[-0.6931, -0.6931]])
    """
    scaled = at_temperature(logits, temperature or 1.0)
    if barred is not None:
        scaled = _where(~barred, scaled)
    if temperature == 0:
        scaled = torch.zeros_like(scaled).masked_fill(scaled < scaled.amax(-1, True), -torch.inf)
    log_probs = scaled.log_softmax(-1)
    return log_probs.masked_fill(scaled == -torch.inf, torch.finfo(scaled.dtype).min)
