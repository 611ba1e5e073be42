"""Decoding distribution: temperature, top-k, top-p, min-p, and packed sampling masks."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Annotated, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from rlcomp.arguments import Fraction, Interval, NonNegativeFloat, NonNegativeInt
from rlcomp.component import check_arguments

# The highest bit of a byte; it is the bit of the byte's first token, as in numpy.
_HIGHEST_BIT = 128


@dataclass(frozen=True, kw_only=True)
class Decoding:
    """Decoding parameters, applied in the order of transformers: temperature, top-k, top-p, min-p.

    Attributes:
        temperature: divides the logits; 0 is greedy decoding.
        top_k: keep the ``top_k`` most likely tokens (ties with the last one stay); 0 keeps all.
        top_p: keep the smallest set of likeliest tokens whose probability reaches ``top_p``;
            1 keeps all.
        min_p: keep tokens at least ``min_p`` times as likely as the likeliest one; 0 keeps all.
        replay: record the sampling mask of each token (V/8 bytes), and score over the recorded
            mask. Without it, scoring applies the filters to the logits of the scoring model.
        keep_routing: experts of a mixture of experts that score a token. ``rollout``: those that
            sampled it (R3). ``proximal``: those that scored it under ``old_log_probs=recomputed``
            (R2). ``none``: the model's current choice; rounding can change it even under equal
            weights.

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
        # Drop the least likely tokens, as long as their total probability is at most 1 - top_p.
        ascending, order = scores.sort(dim=-1)
        below = ascending.softmax(-1).cumsum(-1) <= 1.0 - decoding.top_p
        below[..., -1] = False
        scores = scores.masked_fill(torch.zeros_like(below).scatter(-1, order, below), -torch.inf)
    if decoding.min_p > 0.0:
        probs = scores.softmax(-1)
        floor = decoding.min_p * probs.amax(-1, keepdim=True)
        scores = scores.masked_fill(probs < floor, -torch.inf)
    return scores > -torch.inf


def filter_logits(logits: Tensor, decoding: Decoding, suppressed: Tensor | None = None) -> Tensor:
    """Apply temperature, suppressed tokens and filters to logits.

    Args:
        logits: shape ``[N, V]``, any float dtype.
        decoding: temperature and filters.
        suppressed: tokens that are never drawn; shape ``[V]``, bool.

    Returns:
        Shape ``[N, V]``, not normalised, float32 at least; ``-inf`` where a token cannot be drawn.
    """
    if decoding.temperature == 0:
        unscaled = _suppress(divide_by_temperature(logits, 1.0), suppressed)
        impossible = torch.full_like(unscaled, -torch.inf)
        return impossible.scatter(-1, unscaled.argmax(-1, keepdim=True), 0.0)
    # Suppressed after the temperature: -inf divided by an infinite temperature is NaN.
    scaled = _suppress(divide_by_temperature(logits, decoding.temperature), suppressed)
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
        suppressed: tokens that are never drawn; shape ``[V]``, bool.

    Returns:
        Shape ``[N, V]``, nats, float32 at least; ``-inf`` where a token cannot be drawn.
    """
    return filter_logits(logits, decoding, suppressed).log_softmax(-1)


def _suppress(logits: Tensor, suppressed: Tensor | None) -> Tensor:
    if suppressed is None:
        return logits
    if logits.is_cuda:  # nonzero would synchronise with the device
        return logits.masked_fill(suppressed, -torch.inf)
    # For few suppressed tokens twenty times faster than a mask over the vocabulary.
    return logits.index_fill(-1, suppressed.nonzero().flatten(), -torch.inf)


def pack_mask(mask: Tensor) -> Tensor:
    """Pack a sampling mask, eight tokens per byte, in the order of ``numpy.packbits``.

    Args:
        mask: shape ``[..., V]``, bool.

    Returns:
        Shape ``[..., ceil(V / 8)]``, uint8; the bits beyond ``V`` are 0.

    Examples:
        >>> pack_mask(torch.tensor([True, False, False, False, False, False, False, True, True]))
        tensor([129, 128], dtype=torch.uint8)
    """
    bits = F.pad(mask, (0, -mask.shape[-1] % 8)).view(*mask.shape[:-1], -1, 8)
    weights = _bit_weights(mask.device)
    return (bits * weights).sum(-1, dtype=torch.uint8)


def unpack_mask(packed: Tensor, vocabulary: int) -> Tensor:
    """Unpack a sampling mask packed by :func:`pack_mask`.

    Args:
        packed: shape ``[..., ceil(V / 8)]``, uint8.
        vocabulary: ``V``.

    Returns:
        Shape ``[..., V]``, bool.

    Examples:
        >>> unpack_mask(torch.tensor([128], dtype=torch.uint8), 3)
        tensor([ True, False, False])
    """
    weights = _bit_weights(packed.device)
    return ((packed[..., None] & weights) != 0).flatten(-2)[..., :vocabulary]


def mask_contains(packed: Tensor, tokens: Tensor) -> Tensor:
    """Return whether each packed sampling mask contains a token.

    Args:
        packed: shape ``[N, ceil(V / 8)]``, uint8.
        tokens: shape ``[N]``, int64.

    Returns:
        Shape ``[N]``, bool.

    Examples:
        >>> mask_contains(torch.tensor([[128], [128]], dtype=torch.uint8), torch.tensor([0, 1]))
        tensor([ True, False])
    """
    byte = packed.gather(-1, tokens[:, None] // 8).squeeze(-1)
    return (byte >> (7 - tokens % 8)) & 1 == 1


def _bit_weights(device: torch.device) -> Tensor:
    """Return the weights of a byte's bits; a copy to the device would synchronise with it."""
    highest = torch.full((8,), _HIGHEST_BIT, dtype=torch.uint8, device=device)
    return highest >> torch.arange(8, dtype=torch.uint8, device=device)
