"""Products of a chosen precision: TF32 factors, and half-precision factors with float32 sums."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
import torch.nn.functional as F
from torch import Tensor


@contextmanager
def tf32() -> Iterator[None]:
    """Let float32 products on a GPU round their factors to TF32; changes the whole process."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def wide_product(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Compute ``x @ weight.T + bias`` of half-precision factors, summed and returned in float32.

    A CPU rounds the sums to the dtype of the factors first.

    Args:
        x: shape ``[N, I]``.
        weight: shape ``[O, I]``.
        bias: shape ``[O]``; None for none.

    Source:
        Kalamkar et al. 2019, arXiv:1905.12322, section 3.

    Examples:
        >>> x, weight = torch.tensor([[1.0, 2.0]]).half(), torch.tensor([[3.0, 4.0]]).half()
        >>> wide_product(x, weight, None)
        tensor([[11.]])
    """
    if x.is_cuda:
        product = torch.mm(x, weight.t(), out_dtype=torch.float32)
    else:
        product = F.linear(x, weight).float()
    return product if bias is None else product.add_(bias)
