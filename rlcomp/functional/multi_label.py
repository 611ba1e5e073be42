"""Multi-label binary cross-entropy with missing labels."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

from rlcomp.errors import NumericalError, ShapeError
from rlcomp.functional.masked import masked


def multi_label_loss(logits: Tensor, labels: Tensor) -> Tensor:
    """Compute the binary cross-entropy, averaged over the known labels.

    Args:
        logits: log-odds of ``K`` labels of ``N`` texts, shape ``[N, K]``.
        labels: 1, 0, or NaN where unknown, shape ``[N, K]``; a number between 0 and 1 is a
            probability.

    Returns:
        Shape ``[]``, in nats; 0 if all labels are unknown. Unknown labels have no gradient.

    Raises:
        ShapeError: the two tensors differ in shape.
        NumericalError: a label is neither NaN nor in [0, 1].

    Source:
        Masked binary cross-entropy with logits; Bishop 2006, Pattern Recognition and Machine
        Learning, eq. 4.90, for each label.

    Examples:
        >>> import torch
        >>> labels = torch.tensor([[1.0, torch.nan]])
        >>> multi_label_loss(torch.tensor([[0.0, 50.0]]), labels)  # log 2
        tensor(0.6931)
    """
    if logits.shape != labels.shape:
        raise ShapeError(
            f"'labels' has shape {list(labels.shape)}, but 'logits' has shape {list(logits.shape)}"
        )
    known = ~labels.isnan()
    # -1 is a common mark of an unknown label; without this check it would be learnt.
    wrong = known & ~((labels >= 0) & (labels <= 1))
    if bool(wrong.any()):
        raise NumericalError(
            f"'labels' holds {float(labels[wrong][0])}: a label is 0, 1 or between, NaN where "
            "unknown"
        )
    losses = F.binary_cross_entropy_with_logits(
        masked(logits, known), masked(labels, known).to(logits.dtype), reduction="none"
    )
    return masked(losses, known).sum() / known.sum().clamp(min=1)
