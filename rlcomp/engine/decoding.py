"""Decoding: temperature, top-k, top-p, min-p, and the token draw."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Annotated, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from rlcomp.arguments import Fraction, Interval, NonNegativeFloat, NonNegativeInt
from rlcomp.component import check_arguments

# Tokens of a large vocabulary that are summed before the draw. Near the root of the vocabulary
# size, sums over blocks and sums within a block cost the same.
_BLOCK = 128


@dataclass(frozen=True, kw_only=True)
class Decoding:
    """Decoding parameters: temperature, top-k, top-p, min-p.

    The parts act in this order, as in transformers: temperature, top-k, top-p, min-p.

    Attributes:
        temperature: divides the logits; 0 takes the most likely token (greedy).
        top_k: keep the ``top_k`` most likely tokens (ties with the last one stay); 0 keeps all.
        top_p: keep the smallest set of likeliest tokens whose probability reaches ``top_p``;
            1 keeps all.
        min_p: keep tokens at least ``min_p`` times as likely as the likeliest one; 0 keeps all.
        replay: record the tokens that the filters keep, and score over the recorded set: V/8 bytes
            a token. Without it, scoring applies the filters of the model that scores.
        keep_routing: for a mixture of experts, the experts that read a token when it is scored.
            ``rollout``: those that read it when it was sampled (R3). ``proximal``: those that read
            it when ``old_log_probs=recomputed`` scored it (R2). ``none``: those that the model
            chooses at that time; rounding can change the choice even under equal weights.

    Source:
        top-p: Holtzman et al. 2019, arXiv:1904.09751; min-p: Nguyen et al. 2024, arXiv:2407.01082;
        replay, keep_routing: DeepSeek-V3.2 2025, arXiv:2512.02556, section 3.1 (keep sampling mask,
        keep routing); R3: Ma et al. 2025, arXiv:2510.11370; R2: Zheng et al. 2025,
        arXiv:2507.18071.
    """

    temperature: NonNegativeFloat = 1.0
    top_k: NonNegativeInt = 0
    top_p: Annotated[float, Interval(gt=0, le=1)] = 1.0
    min_p: Fraction = 0.0
    replay: bool = False
    keep_routing: Literal["none", "proximal", "rollout"] = "none"

    def __post_init__(self) -> None:
        check_arguments(type(self), (), asdict(self))

    @property
    def truncates(self) -> bool:
        """Return whether top-k, top-p or min-p may set probabilities to 0."""
        return self.top_k > 0 or self.top_p < 1.0 or self.min_p > 0.0

    @property
    def replays(self) -> bool:
        """Return whether sampling masks are recorded and replayed in scoring (DeepSeek-V3.2)."""
        return self.replay and self.truncates


def divide_by_temperature(logits: Tensor, temperature: float) -> Tensor:
    """Divide logits by the temperature, in float32 at least (bf16 is too coarse)."""
    logits = logits.float() if logits.dtype in (torch.float16, torch.bfloat16) else logits
    return logits if temperature == 1.0 else logits / temperature


@torch.no_grad()
def sampling_mask(logits: Tensor, decoding: Decoding) -> Tensor:
    """Return the sampling mask: the tokens that pass top-k, top-p and min-p.

    Args:
        logits: shape ``[N, V]``, already divided by the temperature.
        decoding: the filters; its temperature is not used.

    Returns:
        Shape ``[N, V]``, bool, at least one True per row.
    """
    scores = logits
    if 0 < decoding.top_k < scores.shape[-1]:
        last = scores.topk(decoding.top_k).values[..., -1:]
        scores = scores.masked_fill(scores < last, -torch.inf)
    if decoding.top_p < 1.0:
        ascending, order = scores.sort(dim=-1)
        below = ascending.softmax(-1).cumsum(-1) <= 1.0 - decoding.top_p
        below[..., -1] = False
        scores = scores.masked_fill(torch.zeros_like(below).scatter(-1, order, below), -torch.inf)
    if decoding.min_p > 0.0:
        likely = scores.softmax(-1)
        floor = decoding.min_p * likely.amax(-1, keepdim=True)
        scores = scores.masked_fill(likely < floor, -torch.inf)
    return scores > -torch.inf


def filter_logits(logits: Tensor, decoding: Decoding, suppressed: Tensor | None = None) -> Tensor:
    """Filter logits: apply temperature, suppressed tokens and the sampling mask.

    Args:
        logits: shape ``[N, V]``, any float dtype.
        decoding: temperature and filters.
        suppressed: tokens that are never drawn, whatever their logits; shape ``[V]``, bool.

    Returns:
        Shape ``[N, V]``, not normalised, float32 at least; ``-inf`` where a token cannot be drawn.
    """
    if decoding.temperature == 0:
        likely = _without(divide_by_temperature(logits, 1.0), suppressed)
        point = torch.full_like(likely, -torch.inf)
        return point.scatter(-1, likely.argmax(-1, keepdim=True), 0.0)
    # Suppressed after the temperature: -inf divided by an infinite temperature is NaN.
    scaled = _without(divide_by_temperature(logits, decoding.temperature), suppressed)
    if decoding.truncates:
        scaled = scaled.masked_fill(~sampling_mask(scaled, decoding), -torch.inf)
    return scaled


def sampling_log_probs(
    logits: Tensor, decoding: Decoding, suppressed: Tensor | None = None
) -> Tensor:
    """Compute the log-probs of the decoding distribution, filters included.

    Args:
        logits: shape ``[N, V]``, any float dtype.
        decoding: temperature and filters.
        suppressed: tokens that are never drawn, whatever their logits; shape ``[V]``, bool.

    Returns:
        Shape ``[N, V]``, nats, float32 at least; ``-inf`` where a token cannot be drawn.
    """
    return filter_logits(logits, decoding, suppressed).log_softmax(-1)


def _without(logits: Tensor, suppressed: Tensor | None) -> Tensor:
    if suppressed is None:
        return logits
    if logits.is_cuda:  # counting the tokens would synchronise with the device
        return logits.masked_fill(suppressed, -torch.inf)
    # Far fewer tokens than the vocabulary: a mask over all of it takes twenty times as long.
    return logits.index_fill(-1, suppressed.nonzero().flatten(), -torch.inf)


def sample(scores: Tensor, uniform: Tensor) -> tuple[Tensor, Tensor]:
    """Draw one token per row by inverse-CDF sampling.

    Each row's token is a function of its scores and its uniform number alone. A token whose
    probability is 0 in the dtype of the scores is never drawn. For a large vocabulary, first a
    block of tokens is drawn, then a token in the block by the remainder of the uniform number. This
    way few of the sums need float64.

    Args:
        scores: log-probs up to a constant, shape ``[N, V]``; ``-inf`` for tokens that cannot be
            drawn.
        uniform: numbers in [0, 1), shape ``[N, 1]``, float64.

    Returns:
        Tokens, int64, and their log-probs, nats, in the dtype of the scores; shape ``[N]`` each.
    """
    top = scores.amax(-1, keepdim=True)
    if scores.shape[-1] <= 2 * _BLOCK:
        cumulative, token = _invert((scores - top).exp_(), uniform)
    else:
        weights = _in_blocks(scores, top)
        sums = weights.sum(-1)
        cumulative, block = _invert(sums, uniform)
        inside = _left_over(sums, cumulative, block, uniform)
        chosen = weights.gather(1, block[..., None].expand(-1, -1, _BLOCK)).squeeze(1)
        # The clamp is for scores that are NaN: their token must be a valid index, too.
        token = block * _BLOCK + _invert(chosen, inside)[1]
        token.clamp_(max=scores.shape[-1] - 1)
    log_prob = scores.gather(-1, token) - top - cumulative[:, -1:].log()
    return token.squeeze(-1), log_prob.squeeze(-1).to(scores.dtype)


def _in_blocks(scores: Tensor, top: Tensor) -> Tensor:
    """Compute ``exp(scores - top)``, shape ``[N, ceil(V / block), block]``, padded with zeros."""
    rows, vocabulary = scores.shape
    weights = scores.new_empty(rows, -(-vocabulary // _BLOCK), _BLOCK)
    flat = weights.view(rows, -1)
    flat[:, vocabulary:] = -torch.inf
    torch.sub(scores, top, out=flat[:, :vocabulary])
    return weights.exp_()


def _invert(weights: Tensor, uniform: Tensor) -> tuple[Tensor, Tensor]:
    """Invert the CDF: find per row of weights ``[N, n]`` the first cumulative sum above ``u``.

    With ``u`` in [0, total), the first cumulative sum that exceeds ``u`` belongs to a positive
    weight. Two roundings could break this: ``u * total`` may reach ``total``, and a parallel prefix
    sum may grow by an ulp at a zero weight. In these cases, with a chance of about 1e-16, the
    middle of the distribution is taken.

    Returns:
        The cumulative sums, shape ``[N, n]``, float64; the index, int64, shape ``[N, 1]``.
    """
    cumulative = weights.cumsum(-1, dtype=torch.float64)
    levels = F.pad(uniform, (0, 1), value=0.5).mul_(cumulative[:, -1:])
    index = torch.searchsorted(cumulative, levels, right=True).clamp_(max=weights.shape[-1] - 1)
    drawn, middle = index[:, :1], index[:, 1:]
    return cumulative, torch.where(weights.gather(-1, drawn) > 0, drawn, middle)


def _left_over(weights: Tensor, cumulative: Tensor, index: Tensor, uniform: Tensor) -> Tensor:
    """Return the remainder of the uniform number within the chosen entry, in [0, 1], ``[N, 1]``."""
    weight = weights.gather(-1, index).double()
    level = uniform * cumulative[:, -1:]
    return ((level - cumulative.gather(-1, index)) / weight + 1).clamp_(0, 1)
