"""Attention of packed tokens: each token attends to itself and to earlier tokens of its row."""

from __future__ import annotations

from inspect import signature
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention.varlen import varlen_attn

from rlcomp.engine.layout import VarlenLayout
from rlcomp.engine.packing import PackedTokens, Tile

# Later releases of torch need the argument enable_gqa if heads share keys.
_HAS_GQA = "enable_gqa" in signature(varlen_attn).parameters
_GROUPED: dict[str, Any] = {"enable_gqa": True} if _HAS_GQA else {}
_HALF = (torch.bfloat16, torch.float16)
# The kernel needs a head size that is a multiple of this.
_FEATURES = 8


def attend_packed(q: Tensor, k: Tensor, v: Tensor, packed: PackedTokens, scale: float) -> Tensor:
    """Compute attention of packed tokens: in one kernel call where possible, else tile by tile.

    Takes the arguments of :func:`attend_tiles`, except ``packed``: the tokens. Returns shape
    ``[N, heads * D]``.
    """
    if q.is_cuda and q.dtype in _HALF and q.shape[-1] % _FEATURES == 0:
        return attend_varlen(q, k, v, packed.varlen, scale)
    return attend_tiles(q, k, v, packed.tiles, scale)


def attend_varlen(q: Tensor, k: Tensor, v: Tensor, layout: VarlenLayout, scale: float) -> Tensor:
    """Compute attention of packed tokens by one flash kernel, on a GPU and in half precision.

    Keys and values that rows share are copied for each of these rows. If heads share keys, the
    copies are small compared to the residual stream. Gradients of the copies are summed in float32.

    Takes the arguments of :func:`attend_tiles`, except ``layout``: the sequences of the tokens.

    Source:
        Dao 2023, "FlashAttention-2", arXiv:2307.08691, section 3.
    """
    own_keys, own_values = (
        each.float().index_select(0, layout.keys).to(q.dtype) for each in (k, v)
    )
    attended = varlen_attn(
        q,
        own_keys,
        own_values,
        layout.query_starts,
        layout.key_starts,
        *layout.longest,
        scale=scale,
        window_size=(-1, 0),
        **_GROUPED,
    )
    assert isinstance(attended, Tensor)
    return attended.flatten(1)


def attend_tiles(q: Tensor, k: Tensor, v: Tensor, tiles: list[Tile], scale: float) -> Tensor:
    """Compute attention of packed tokens, tile by tile.

    Args:
        q: shape ``[N, heads, D]``.
        k: shape ``[N, kv_heads, D]``.
        v: shape ``[N, kv_heads, D]``.
        tiles: tiles of the tokens, with their masks.
        scale: factor of the attention logits.

    Returns:
        Shape ``[N, heads * D]``.
    """
    # Split instead of sliced: the gradient of every slice would be as large as the whole tensor.
    sizes = [tile.rows.stop - tile.rows.start for tile in tiles]
    heads = (each.transpose(0, 1)[None] for each in (q, k, v))
    queries, keys, values = (torch.split(each, sizes, 2) for each in heads)
    outputs = []
    for index, tile in enumerate(tiles):
        # On a CPU a mask of another dtype than the queries gives wrong numbers without an error.
        mask = None if tile.mask is None else tile.mask.to(q.dtype)
        query, key, value = queries[index], keys[index], values[index]
        if tile.prefix:
            if mask is None:
                query = torch.cat([*(queries[number] for number in tile.prefix), query], 2)
            key = torch.cat([*(keys[number] for number in tile.prefix), key], 2)
            value = torch.cat([*(values[number] for number in tile.prefix), value], 2)
        attended = F.scaled_dot_product_attention(
            query,
            key,
            value,
            attn_mask=mask,
            is_causal=mask is None,
            scale=scale,
            enable_gqa=q.shape[1] != k.shape[1],
        )
        outputs.append(attended[:, :, -sizes[index] :])
    return torch.cat(outputs, 2)[0].transpose(0, 1).flatten(1)
