"""Importance ratios."""

from __future__ import annotations

import torch
from torch import Tensor

from rlcomp.errors import NumericalError, ShapeError

LOG_RATIO_BOUND = 20.0


def log_ratio(log_probs: Tensor, old_log_probs: Tensor, mask: Tensor) -> Tensor:
    """``log pi - log pi_old`` inside the mask, exact 0 outside, clamped to +-20.

    Args:
        log_probs: shape ``[B, T]``, nats, with gradient.
        old_log_probs: shape ``[B, T]``, nats.
        mask: shape ``[B, T]``, bool.

    Returns:
        Shape ``[B, T]``, nats.

    Raises:
        ShapeError: the tensors differ in shape.
        NumericalError: a log-prob inside the mask is not finite.
    """
    if log_probs.shape != old_log_probs.shape or log_probs.shape != mask.shape:
        raise ShapeError(
            f"'log_probs' has shape {list(log_probs.shape)}, 'old_log_probs' "
            f"{list(old_log_probs.shape)}, 'mask' {list(mask.shape)}"
        )
    # Both sides are emptied before the subtraction: NaN outside the mask must not reach the
    # gradient.
    zero, mask = log_probs.new_zeros(()), mask.bool()
    new, old = torch.where(mask, log_probs, zero), torch.where(mask, old_log_probs.detach(), zero)
    for name, values in (("log_probs", new), ("old_log_probs", old)):
        if not bool(values.isfinite().all()):
            row, column = (~values.isfinite()).nonzero()[0].tolist()
            raise NumericalError(f"'{name}' is {float(values[row, column])} at [{row}, {column}]")
    return (new - old).clamp(-LOG_RATIO_BOUND, LOG_RATIO_BOUND)
