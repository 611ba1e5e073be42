"""Attention over a prefix tree of packed tokens by the native library, differentiable once."""

from __future__ import annotations

import ctypes
from typing import Any

import torch
from torch import Tensor

from rlcomp.engine.attention import Indices
from rlcomp.engine.autograd import differentiable_once
from rlcomp.engine.native.library import library


class _Heads(ctypes.Structure):
    """``Heads`` of src/tree_attention.cpp: sizes, nodes and rotary embeddings."""

    _fields_ = (
        ("tokens", ctypes.c_int64),
        ("heads", ctypes.c_int64),
        ("kv_heads", ctypes.c_int64),
        ("size", ctypes.c_int64),
        ("scale", ctypes.c_double),
        ("node", ctypes.c_void_p),
        ("nodes", ctypes.c_int64),
        ("cosine", ctypes.c_void_p),
        ("sine", ctypes.c_void_p),
    )


class _Rows(ctypes.Structure):
    """``Rows`` of src/tree_attention.cpp: address of a tensor, and numbers from row to row."""

    _fields_ = (("at", ctypes.c_void_p), ("row", ctypes.c_int64))


def tree_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    nodes: Indices,
    scale: float,
    rotation: Tensor | None = None,
) -> Tensor:
    """Compute attention of packed tokens: all answers read a prompt's keys at once, without masks.

    A token attends to itself and to earlier tokens of its row. Differentiable once.

    Args:
        q: shape ``[N, heads, D]``, float32, on the CPU.
        k: shape ``[N, kv_heads, D]``.
        v: shape ``[N, kv_heads, D]``.
        nodes: nodes of the tokens (:func:`rlcomp.engine.attention.prefix_tree_nodes`).
        scale: factor of the attention logits.
        rotation: cosines and sines of the rotary embedding of queries and keys, shape ``[2, N, 1,
            D]``, both halves of ``D`` equal, or None.

    Returns:
        Shape ``[N, heads * D]``.

    Source:
        Dao 2023, "FlashAttention-2", arXiv:2307.08691, section 3.1: merges by log-sum-exp.
    """
    rotation = None if rotation is None else rotation.contiguous()
    if not torch.is_grad_enabled():
        q, k, v = _dense(q, k, v)
        return _forward(q, k, v, nodes, scale, rotation)[0].flatten(1)
    attended: Tensor = _TreeAttention.apply(q, k, v, nodes, scale, rotation)  # type: ignore[no-untyped-call]
    return attended.flatten(1)


def _dense(*tensors: Tensor) -> list[Tensor]:
    """Return tensors with contiguous rows; gaps between rows are allowed (a chunk of a matrix)."""
    return [x if x.stride()[1:] == (x.shape[2], 1) else x.contiguous() for x in tensors]


def _rows(x: Tensor) -> _Rows:
    return _Rows(x.data_ptr(), x.stride(0))


def _heads(q: Tensor, k: Tensor, nodes: Indices, scale: float, rotation: Tensor | None) -> _Heads:
    tokens, heads, size = q.shape
    angles = () if rotation is None else (rotation[0].data_ptr(), rotation[1].data_ptr())
    return _Heads(tokens, heads, k.shape[1], size, scale, nodes.ctypes.data, len(nodes), *angles)


def _forward(
    q: Tensor, k: Tensor, v: Tensor, nodes: Indices, scale: float, rotation: Tensor | None
) -> tuple[Tensor, Tensor]:
    out = q.new_empty(q.shape)
    lse = q.new_empty(q.shape[1], len(q))  # log-sum-exp of the scores, for the backward pass
    library().rlcomp_tree_attention(
        ctypes.byref(_heads(q, k, nodes, scale, rotation)),
        *(_rows(each) for each in (q, k, v, out)),
        ctypes.c_void_p(lse.data_ptr()),
    )
    return out, lse


class _TreeAttention(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,  # noqa: ANN401
        q: Tensor,
        k: Tensor,
        v: Tensor,
        nodes: Indices,
        scale: float,
        rotation: Tensor | None,
    ) -> Tensor:
        q, k, v = _dense(q, k, v)
        out, lse = _forward(q, k, v, nodes, scale, rotation)
        ctx.save_for_backward(q, k, v, out, lse, rotation)
        ctx.nodes, ctx.scale = nodes, scale
        return out

    @staticmethod
    @differentiable_once
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401
        q, k, v, out, lse, rotation = ctx.saved_tensors
        (gradient,) = _dense(gradient)
        dq, dk, dv = (each.new_empty(each.shape) for each in (q, k, v))
        library().rlcomp_tree_attention_backward(
            ctypes.byref(_heads(q, k, ctx.nodes, ctx.scale, rotation)),
            *(_rows(each) for each in (q, k, v, out)),
            ctypes.c_void_p(lse.data_ptr()),
            *(_rows(each) for each in (gradient, dq, dk, dv)),
        )
        return dq, dk, dv, None, None, None
