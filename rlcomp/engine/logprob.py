"""Log-probs of sampled tokens with their gradient, entropy and distributions, from logits."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from rlcomp.engine.compiling import compiled
from rlcomp.engine.decoding import Decoding, divide_by_temperature, sampling_mask, unpack_mask
from rlcomp.engine.native import softmax

# A log-prob whose exponential is exactly 0 in every precision.
_LEAST_LOG_PROB = -1e4


def token_log_probs(
    logits: Tensor,
    tokens: Tensor,
    decoding: Decoding,
    suppressed: Tensor | None = None,
    recorded: Tensor | None = None,
) -> Tensor:
    """Compute the log-prob of each sampled token under the decoding distribution.

    The mask of the filters always includes the sampled token: its log-prob stays finite if the
    filters of the updated policy drop it. A recorded mask is used as it is, and must include the
    token. Greedy decoding is a point mass on the sampled token: log-prob 0, without gradient.

    Args:
        logits: shape ``[N, V]``, before the temperature.
        tokens: shape ``[N]``, int64.
        decoding: temperature and filters.
        suppressed: tokens that are never drawn, shape ``[V]``, bool.
        recorded: recorded sampling masks, shape ``[N, ceil(V / 8)]``, uint8; they replace filters
            and suppressed tokens. None to apply the filters to these logits.

    Returns:
        Shape ``[N]``, nats, float32 at least.

    Source:
        recorded masks: DeepSeek-V3.2 2025, arXiv:2512.02556, section 3.1 (keep sampling mask).

    Examples:
        >>> logits = torch.tensor([[2.0, 2.0, 0.0]])
        >>> token_log_probs(logits, torch.tensor([1]), Decoding(top_k=2))
        tensor([-0.6931])
    """
    if decoding.temperature == 0:
        return torch.zeros_like(divide_by_temperature(logits[:, 0], 1.0))
    keep = _mask(logits, tokens, decoding, suppressed, recorded)
    if softmax.is_supported(logits, keep):
        return softmax.log_probs(logits, tokens, decoding.temperature, keep)
    return _log_probs(logits, tokens, decoding.temperature, keep)


def token_log_probs_gradient(
    gradient: Tensor,
    logits: Tensor,
    tokens: Tensor,
    decoding: Decoding,
    suppressed: Tensor | None = None,
    recorded: Tensor | None = None,
) -> Tensor:
    """Compute the gradient of :func:`token_log_probs` with respect to the logits, in closed form.

    ``d log p(a) / d z_v = (1[v = a] - p_v) / T``, with ``p`` over the tokens of the sampling mask.

    Args:
        gradient: gradient with respect to the log-probs, shape ``[N]``.
        logits: shape ``[N, V]``, before division by the temperature, which must be above 0.
        tokens: shape ``[N]``, int64.
        decoding: as in :func:`token_log_probs`.
        suppressed: as in :func:`token_log_probs`.
        recorded: as in :func:`token_log_probs`.

    Returns:
        Shape ``[N, V]``, float32 at least.

    Source:
        Bridle 1990, "Probabilistic interpretation of feedforward classification network outputs",
        section 3.

    Examples:
        >>> logits, tokens = torch.zeros(1, 2), torch.tensor([1])
        >>> token_log_probs_gradient(torch.ones(1), logits, tokens, Decoding(temperature=0.5))
        tensor([[-1.,  1.]])
    """
    keep = _mask(logits, tokens, decoding, suppressed, recorded)
    if softmax.is_supported(logits, keep):
        return softmax.log_probs_gradient(gradient, logits, tokens, decoding.temperature, keep)
    return _log_probs_gradient(gradient, logits, tokens, decoding.temperature, keep)


def squared_probs(
    logits: Tensor,
    tokens: Tensor,
    decoding: Decoding,
    suppressed: Tensor | None = None,
    recorded: Tensor | None = None,
) -> Tensor:
    """Compute the sum of squared probabilities over the vocabulary: ``sum_v p_v^2``.

    The distribution is as in :func:`token_log_probs`; for greedy decoding the sum is 1.

    Args:
        logits: shape ``[N, V]``, before the temperature.
        tokens: sampled, shape ``[N]``, int64.
        decoding: temperature and filters.
        suppressed: tokens that are never drawn, shape ``[V]``, bool.
        recorded: as in :func:`token_log_probs`.

    Returns:
        Shape ``[N]``, dimensionless, between 1/V and 1, float32 at least.

    Source:
        Li et al. 2026, The Optimal Token Baseline, PMLR 306: a term of the squared norm of the
        score, as in verl.

    Examples:
        >>> squared_probs(torch.zeros(1, 4), torch.tensor([0]), Decoding())
        tensor([0.2500])
    """
    if decoding.temperature == 0:
        return torch.ones_like(divide_by_temperature(logits[:, 0], 1.0))
    keep = _mask(logits, tokens, decoding, suppressed, recorded)
    return _scaled(logits, decoding.temperature, keep).softmax(-1).square().sum(-1)


@compiled
def _log_probs(logits: Tensor, tokens: Tensor, temperature: float, keep: Tensor | None) -> Tensor:
    return -F.cross_entropy(_scaled(logits, temperature, keep), tokens, reduction="none")


@compiled
def _log_probs_gradient(
    gradient: Tensor, logits: Tensor, tokens: Tensor, temperature: float, keep: Tensor | None
) -> Tensor:
    share = (gradient / temperature)[:, None]
    probs = _scaled(logits, temperature, keep).softmax(-1)
    return probs.mul_(-share).scatter_add_(-1, tokens[:, None], share)


def _scaled(logits: Tensor, temperature: float, keep: Tensor | None) -> Tensor:
    """Divide logits by the temperature, and set ``-inf`` outside the sampling mask."""
    scaled = divide_by_temperature(logits, temperature)
    return scaled if keep is None else _where(keep, scaled)


def _mask(
    logits: Tensor,
    tokens: Tensor,
    decoding: Decoding,
    suppressed: Tensor | None,
    recorded: Tensor | None,
) -> Tensor | None:
    """Return the sampling mask, ``[N, V]`` or ``[V]``; None if all tokens may be drawn."""
    if recorded is not None:
        return unpack_mask(recorded, logits.shape[-1])
    return _filter_mask(logits.detach(), tokens, decoding, suppressed)


def _where(keep: Tensor, scaled: Tensor) -> Tensor:
    """Return logits with ``-inf`` outside a mask; twice as fast as masked_fill on a CPU."""
    return torch.where(keep, scaled, -torch.inf)


def _filter_mask(
    logits: Tensor, tokens: Tensor, decoding: Decoding, suppressed: Tensor | None
) -> Tensor | None:
    """Return the mask of filters and suppressed tokens, with the sampled tokens added."""
    if decoding.truncates:
        scaled = divide_by_temperature(logits, decoding.temperature)
        keep = sampling_mask(
            scaled if suppressed is None else _where(~suppressed, scaled), decoding
        )
    elif suppressed is None:
        return None
    elif not bool(suppressed[tokens].any()):
        return ~suppressed  # one mask for all rows, which the native library supports
    else:
        keep = ~suppressed.expand_as(logits)
    return keep.scatter(-1, tokens[:, None], True)


def entropy(logits: Tensor, temperature: float, suppressed: Tensor | None = None) -> Tensor:
    """Compute the entropy of the next token at a temperature, before top-k, top-p, min-p.

    Args:
        logits: shape ``[N, V]``; ``-inf`` marks impossible tokens.
        temperature: divides the logits; at 0 the entropy is 0.
        suppressed: tokens that are never drawn, shape ``[V]``, bool.

    Returns:
        Shape ``[N]``, nats, float32 at least.

    Source:
        Shannon 1948, "A mathematical theory of communication", section 6.

    Examples:
        >>> entropy(torch.zeros(1, 4), 1.0)
        tensor([1.3863])
    """
    if temperature == 0:
        return torch.zeros_like(divide_by_temperature(logits[:, 0], 1.0))
    keep = None if suppressed is None else ~suppressed
    if softmax.is_supported(logits, keep):
        return softmax.entropies(logits, temperature, keep)
    return _entropy(logits, temperature, keep)


@compiled
def _entropy(logits: Tensor, temperature: float, keep: Tensor | None) -> Tensor:
    log_probs = _scaled(logits, temperature, keep).log_softmax(-1)
    # 0 * -inf is NaN in value and gradient: bound the factor.
    finite = log_probs.clamp(min=_LEAST_LOG_PROB)
    return -(log_probs.exp() * finite).sum(-1)


def log_distribution(
    logits: Tensor, temperature: float, suppressed: Tensor | None = None
) -> Tensor:
    """Compute log-probs of the full vocabulary at a temperature, before top-k, top-p, min-p.

    Args:
        logits: shape ``[N, V]``.
        temperature: divides the logits; at 0 all probability is on the largest logit, and equal
            largest logits share it.
        suppressed: tokens that are never drawn, shape ``[V]``, bool.

    Returns:
        Shape ``[N, V]``, nats, float32 at least; the least finite number for tokens of probability
        0 (suppressed tokens, and others at temperature 0).

    Source:
        Kullback & Leibler 1951, "On information and sufficiency", eq. 2.4.

    Examples:
        >>> log_distribution(torch.zeros(1, 2), 1.0)
        tensor([[-0.6931, -0.6931]])
    """
    scaled = divide_by_temperature(logits, temperature or 1.0)
    if suppressed is not None:
        scaled = _where(~suppressed, scaled)
    if temperature == 0:
        scaled = torch.zeros_like(scaled).masked_fill(scaled < scaled.amax(-1, True), -torch.inf)
    log_probs = scaled.log_softmax(-1)
    return log_probs.masked_fill(scaled == -torch.inf, torch.finfo(scaled.dtype).min)
