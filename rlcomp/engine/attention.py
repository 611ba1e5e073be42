"""Attention of packed tokens: each to those before it in its row."""

from __future__ import annotations

from inspect import signature
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention.varlen import varlen_attn

from rlcomp.engine.packing import Packed, Tile
from rlcomp.engine.paths import Paths

# Later releases of torch want to be told that heads share keys.
_TOLD = "enable_gqa" in signature(varlen_attn).parameters
_GROUPED: dict[str, Any] = {"enable_gqa": True} if _TOLD else {}
_HALF = (torch.bfloat16, torch.float16)
# The kernel takes heads whose size is a multiple of it.
_FEATURES = 8


def attend_packed(q: Tensor, k: Tensor, v: Tensor, packed: Packed, scale: float) -> Tensor:
    """Attention of packed tokens: in one call where a kernel takes them all, else tile by tile.

    Arguments and result are those of :func:`attend`, but for ``packed``: the tokens.
    """
    if q.is_cuda and q.dtype in _HALF and q.shape[-1] % _FEATURES == 0:
        return attend_paths(q, k, v, packed.paths, scale)
    return attend(q, k, v, packed.tiles, scale)


def attend_paths(q: Tensor, k: Tensor, v: Tensor, paths: Paths, scale: float) -> Tensor:
    """Attention of packed tokens by one flash kernel, on a GPU and in half precision.

    Keys and values that rows share are laid out once for each of them, a copy that is small beside
    the stream where heads share keys; their gradients are added up in float32.

    Arguments and result are those of :func:`attend`, but for ``paths``: who sees whom.

    Source:
        Dao 2023, "FlashAttention-2", arXiv:2307.08691, section 3.
    """
    seen, read = (each.float().index_select(0, paths.keys).to(q.dtype) for each in (k, v))
    attended = varlen_attn(
        q,
        seen,
        read,
        paths.asks,
        paths.sees,
        *paths.longest,
        scale=scale,
        window_size=(-1, 0),
        **_GROUPED,
    )
    assert isinstance(attended, Tensor)
    return attended.flatten(1)


def attend(q: Tensor, k: Tensor, v: Tensor, tiles: list[Tile], scale: float) -> Tensor:
    """Attention of packed tokens, tile by tile.

    Args:
        q: shape ``[N, heads, D]``.
        k: shape ``[N, kv_heads, D]``.
        v: shape ``[N, kv_heads, D]``.
        tiles: who attends to whom.
        scale: of the logits.

    Returns:
        Shape ``[N, heads * D]``.
    """
    # Split, not sliced: the gradient of every slice would be as large as the whole.
    sizes = [tile.rows.stop - tile.rows.start for tile in tiles]
    heads = (each.transpose(0, 1)[None] for each in (q, k, v))
    asks, keys, values = (torch.split(each, sizes, 2) for each in heads)
    outputs = []
    for index, tile in enumerate(tiles):
        # On a CPU a mask of another dtype than the queries' gives wrong numbers without a word.
        mask = None if tile.mask is None else tile.mask.to(q.dtype)
        ask, seen, read = asks[index], keys[index], values[index]
        if tile.prefix:
            if mask is None:
                ask = torch.cat([*(asks[number] for number in tile.prefix), ask], 2)
            seen = torch.cat([*(keys[number] for number in tile.prefix), seen], 2)
            read = torch.cat([*(values[number] for number in tile.prefix), read], 2)
        attended = F.scaled_dot_product_attention(
            ask,
            seen,
            read,
            attn_mask=mask,
            is_causal=mask is None,
            scale=scale,
            enable_gqa=q.shape[1] != k.shape[1],
        )
        outputs.append(attended[:, :, -sizes[index] :])
    return torch.cat(outputs, 2)[0].transpose(0, 1).flatten(1)
