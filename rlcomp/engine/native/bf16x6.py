"""Float32 product by six bfloat16 products (BF16x6), on a CPU with Intel AMX."""

from __future__ import annotations

import ctypes
from functools import cache

import torch
from torch import Tensor

from rlcomp.engine.native.library import address, int64, library
from rlcomp.errors import ShapeError


def why_missing_bf16x6() -> str | None:
    """Return why this machine does not support BF16x6; None if it does."""
    try:
        return _why_unsupported(library())
    except RuntimeError as error:
        return str(error)


@cache
def _why_unsupported(loaded: ctypes.CDLL) -> str | None:
    if loaded.rlcomp_has_bf16x6():
        return None
    return (
        "this machine has no AMX unit for bfloat16, or the operating system or "
        "ATEN_CPU_CAPABILITY disables it"
    )


def add_product(out: Tensor, a: Tensor, b: Tensor) -> None:
    """Add ``a @ b`` to ``out`` in place.

    Each factor is split exactly into three bfloat16 numbers, ``a = a1 + a2 + a3``, by cutting off
    digits. The three smallest of the nine products, ``a2 b3 + a3 b2 + a3 b3``, are left out: less
    than 2^-20 of ``a b``, and 2^-24.5 on average; float32 itself rounds by 2^-24 at most. Sums are
    in float32, of 512 terms at a time. Infinities give NaN; numbers and products below 1e-30 lose
    digits.

    Args:
        out: shape ``[M, N]``, float32, on the CPU, like the factors.
        a: shape ``[M, K]``.
        b: shape ``[K, N]``.

    Raises:
        RuntimeError: this machine does not support BF16x6 (:func:`why_missing_bf16x6`).
        ShapeError: the shapes do not match, or a tensor has another dtype or device.
        MemoryError: there is no memory for the parts of the factors, at most 2 MB.

    Source:
        Henry, Tang & Heinecke 2019, "Leveraging the bfloat16 artificial intelligence datatype for
        higher-precision computations", arXiv:1904.06376, section III.
    """
    if _dense(out):
        _call(out, a, b, add=True)
    else:
        out.add_(product(a, b))


def product(a: Tensor, b: Tensor) -> Tensor:
    """Compute ``a @ b``, shape ``[M, N]``; rounding and errors are as in :func:`add_product`."""
    out = a.new_empty(len(a), b.shape[1])
    _call(out, a, b, add=False)
    return out


def _call(out: Tensor, a: Tensor, b: Tensor, *, add: bool) -> None:
    loaded = library()
    if (reason := _why_unsupported(loaded)) is not None:
        raise RuntimeError(reason)
    _check(out, a, b)
    if not (out.numel() and a.shape[1]):
        if not add:
            out.zero_()
        return
    factors = [each if _dense(each) else each.contiguous() for each in (a, b)]
    arguments = [
        argument
        for each in (*factors, out)
        for argument in (address(each), *map(int64, each.stride()))
    ]
    loaded.rlcomp_bf16x6(*arguments, *map(int64, (*out.shape, a.shape[1], add)))


def _check(out: Tensor, a: Tensor, b: Tensor) -> None:
    shapes = [tuple(each.shape) for each in (a, b, out)]
    are_matrices = all(len(shape) == 2 for shape in shapes)
    if not (are_matrices and a.shape[1] == len(b) and shapes[2] == (len(a), b.shape[1])):
        raise ShapeError(f"{shapes[0]} by {shapes[1]} is not a product of shape {shapes[2]}")
    for each in (a, b, out):
        if each.dtype != torch.float32 or each.device.type != "cpu":
            raise ShapeError(f"BF16x6 takes float32 on the CPU, not {each.dtype} on {each.device}")


def _dense(tensor: Tensor) -> bool:
    """Return whether the rows or the columns of a matrix are contiguous."""
    return 1 in tensor.stride()
