"""The distribution tokens are drawn from, and the draw."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Annotated

import torch
from torch import Tensor

from rlcomp.check import Fraction, Interval, NonNegativeFloat, NonNegativeInt
from rlcomp.component import check_arguments


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """How the next token is drawn from the model's logits.

    The parts act in this order, as in transformers: temperature, top-k, top-p, min-p.

    Attributes:
        temperature: divides the logits; 0 takes the most likely token (greedy).
        top_k: keep the ``top_k`` most likely tokens (ties with the last one stay); 0 keeps all.
        top_p: keep the smallest set of likeliest tokens whose probability reaches ``top_p``;
            1 keeps all.
        min_p: keep tokens at least ``min_p`` times as likely as the likeliest one; 0 keeps all.
        replay: record the tokens that were kept, and score over the recorded set: V/8 bytes a
            token. Without it the set is that of the model that scores.

    Source:
        top-p: Holtzman et al. 2019, arXiv:1904.09751; min-p: Nguyen et al. 2024, arXiv:2407.01082;
        replay: DeepSeek-V3.2 2025, arXiv:2512.02556, section 3.1 (keep sampling mask).
    """

    temperature: NonNegativeFloat = 1.0
    top_k: NonNegativeInt = 0
    top_p: Annotated[float, Interval(gt=0, le=1)] = 1.0
    min_p: Fraction = 0.0
    replay: bool = False

    def __post_init__(self) -> None:
        check_arguments(type(self), (), asdict(self))

    @property
    def truncates(self) -> bool:
        """Whether some tokens may get probability 0."""
        return self.top_k > 0 or self.top_p < 1.0 or self.min_p > 0.0

    @property
    def replays(self) -> bool:
        """Whether the tokens kept are recorded, and scored over."""
        return self.replay and self.truncates


def at_temperature(logits: Tensor, temperature: float) -> Tensor:
    """Logits over the temperature, in float32 at least (bf16 is too coarse for a vocabulary)."""
    logits = logits.float() if logits.dtype in (torch.float16, torch.bfloat16) else logits
    return logits if temperature == 1.0 else logits / temperature


@torch.no_grad()
def kept(logits: Tensor, sampling: Sampling) -> Tensor:
    """Which tokens may be drawn.

    Args:
        logits: shape ``[N, V]``, already over the temperature.
        sampling: the filters; its temperature is not used.

    Returns:
        Shape ``[N, V]``, bool, at least one True per row.
    """
    scores = logits
    if 0 < sampling.top_k < scores.shape[-1]:
        last = scores.topk(sampling.top_k).values[..., -1:]
        scores = scores.masked_fill(scores < last, -torch.inf)
    if sampling.top_p < 1.0:
        ascending, order = scores.sort(dim=-1)
        below = ascending.softmax(-1).cumsum(-1) <= 1.0 - sampling.top_p
        below[..., -1] = False
        scores = scores.masked_fill(torch.zeros_like(below).scatter(-1, order, below), -torch.inf)
    if sampling.min_p > 0.0:
        likely = scores.softmax(-1)
        floor = sampling.min_p * likely.amax(-1, keepdim=True)
        scores = scores.masked_fill(likely < floor, -torch.inf)
    return scores > -torch.inf


def sampling_log_probs(logits: Tensor, sampling: Sampling, barred: Tensor | None = None) -> Tensor:
    """Log-probabilities of the distribution tokens are really drawn from.

    Args:
        logits: shape ``[N, V]``, any float dtype.
        sampling: temperature and filters.
        barred: tokens that are never drawn, whatever the logits say; shape ``[V]``, bool.

    Returns:
        Shape ``[N, V]``, nats, float32 at least; ``-inf`` where a token cannot be drawn.
    """
    if sampling.temperature == 0:
        likely = _without(at_temperature(logits, 1.0), barred)
        point = torch.full_like(likely, -torch.inf)
        return point.scatter(-1, likely.argmax(-1, keepdim=True), 0.0)
    # Barred after the temperature: -inf over an infinite one is NaN.
    scaled = _without(at_temperature(logits, sampling.temperature), barred)
    if sampling.truncates:
        scaled = scaled.masked_fill(~kept(scaled, sampling), -torch.inf)
    return scaled.log_softmax(-1)


def _without(logits: Tensor, barred: Tensor | None) -> Tensor:
    return logits if barred is None else logits.masked_fill(barred, -torch.inf)


def sample(log_probs: Tensor, generator: torch.Generator) -> Tensor:
    """Draw one token per row by inverting the cumulative distribution, in float64.

    A token of probability 0 is never drawn: with ``u`` in [0, total), the first token whose
    cumulative sum exceeds ``u`` is one at which the sum grows. Two roundings could break that
    (``u * total`` reaching ``total``; a parallel prefix sum that grows by an ulp at a zero): there
    the likeliest token is taken, with a chance of about 1e-16.

    Args:
        log_probs: shape ``[N, V]``, nats; need not be normalised exactly.
        generator: on the CPU, so that the draws do not depend on the device.

    Returns:
        Shape ``[N]``, int64.
    """
    probs = log_probs.double().exp()
    cumulative = probs.cumsum(-1)
    uniform = torch.rand(len(probs), 1, dtype=torch.float64, generator=generator)
    level = uniform.to(probs.device) * cumulative[:, -1:]
    drawn = torch.searchsorted(cumulative, level, right=True).clamp_(max=probs.shape[-1] - 1)
    possible = probs.gather(-1, drawn) > 0
    return torch.where(possible, drawn, probs.argmax(-1, keepdim=True)).squeeze(-1)
