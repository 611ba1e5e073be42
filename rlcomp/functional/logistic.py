"""Logistic regression with cluster-robust standard errors."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from rlcomp.errors import DataError

_STEPS = 50
# Log-odds beyond which a coefficient means certainty.
_MOST = 30.0


class Fit(NamedTuple):
    """A fitted logistic regression.

    Attributes:
        coefficients: log-odds per unit of each column, shape ``[K]``.
        errors: their standard errors, shape ``[K]``.
    """

    coefficients: Tensor
    errors: Tensor


def logistic(features: Tensor, outcome: Tensor, cluster: Tensor) -> Fit:
    """Fit ``P(y = 1) = s(x b)`` by Newton's method, without a penalty.

    ``V = H^-1 (sum_c g_c g_c^T) H^-1`` with ``H = sum p (1 - p) x x^T`` and ``g_c`` the sum of ``(y
    - p) x`` over the rows of a cluster. The errors are valid if rows of a cluster depend on one
    another, and if outcomes are shares in [0, 1].

    Args:
        features: shape ``[N, K]``; a column of ones is the intercept.
        outcome: shape ``[N]``, in [0, 1].
        cluster: shape ``[N]``, int64: rows with one number belong together.

    Raises:
        DataError: there is no finite maximum: a column follows from others, or some columns
            determine the outcome.

    Source:
        Liang & Zeger 1986, Biometrika 73; Papke & Wooldridge 1996 for shares.

    Examples:
        >>> ones, rows = torch.ones(4, 1), torch.arange(4)
        >>> logistic(ones, torch.tensor([1.0, 1.0, 1.0, 0.0]), rows)[0]  # log(3)
        tensor([1.0986], dtype=torch.float64)
    """
    x, y = features.double(), outcome.double()
    b = torch.zeros(x.shape[1], dtype=torch.float64)
    for _ in range(_STEPS):
        step = _newton(x, y, b)
        b = b + step
        if float(step.abs().max()) < 1e-10:
            break
        if float((x @ b).abs().max()) > _MOST:
            raise DataError(
                "logistic: the outcome is certain by the columns, so that no coefficient is "
                "finite: give more rows, or rows that are closer calls"
            )
    p = torch.sigmoid(x @ b)
    inverse = torch.linalg.inv(_information(x, p))
    groups = torch.unique(cluster, return_inverse=True)[1]
    scores = torch.zeros(int(groups.max()) + 1, x.shape[1], dtype=torch.float64)
    scores.index_add_(0, groups, (y - p)[:, None] * x)
    return Fit(b, (inverse @ scores.T @ scores @ inverse).diagonal().clamp(min=0).sqrt())


def _information(x: Tensor, p: Tensor) -> Tensor:
    return (x * (p * (1 - p))[:, None]).T @ x


def _newton(x: Tensor, y: Tensor, b: Tensor) -> Tensor:
    p = torch.sigmoid(x @ b)
    information = _information(x, p)
    if float(torch.linalg.cond(information)) > 1e12:
        raise DataError(
            "logistic: a column follows from others (or is the same in all rows), so that their "
            "coefficients cannot be told apart: leave it out"
        )
    step: Tensor = torch.linalg.solve(information, x.T @ (y - p))
    return step
