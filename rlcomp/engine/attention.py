"""Attention of packed tokens: each tile to itself, and to the prefix that it shares."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from rlcomp.engine.packing import Tile


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
