"""Ranking quality of scores: order of the texts with a label before the texts without."""

from __future__ import annotations

from torch import Tensor


def roc_auc(score: Tensor, positive: Tensor) -> Tensor:
    """Compute the area under the ROC curve, ``P(s_+ > s_-) + P(s_+ = s_-) / 2`` over all pairs.

    Args:
        score: shape ``[N]``.
        positive: True for texts with the label, bool, shape ``[N]``.

    Returns:
        Shape ``[]``, float64; NaN if all or none of the texts have the label.

    Source:
        Hanley and McNeil 1982, Radiology 143(1): the Wilcoxon statistic.

    Examples:
        >>> import torch
        >>> roc_auc(torch.tensor([3.0, 2.0, 1.0]), torch.tensor([True, False, True]))
        tensor(0.5000, dtype=torch.float64)
    """
    # Compare instead of subtracting: the difference of two scores of -inf is NaN.
    with_label, without = score[positive][:, None], score[~positive][None, :]
    return ((with_label > without).double() + (with_label == without).double() / 2).mean()


def average_precision(score: Tensor, positive: Tensor) -> Tensor:
    """Compute the average precision: the mean precision down to each labelled text's score.

    ``AP = mean_{i in +} #{j in +: s_j >= s_i} / #{j: s_j >= s_i}``. An uninformative score has the
    share of labelled texts as its value.

    Args:
        score: shape ``[N]``.
        positive: True for texts with the label, bool, shape ``[N]``.

    Returns:
        Shape ``[]``, float64; NaN if no text has the label.

    Source:
        Manning et al. 2008, Introduction to Information Retrieval, section 8.4.

    Examples:
        >>> import torch
        >>> average_precision(torch.tensor([3.0, 2.0, 1.0]), torch.tensor([True, False, True]))
        tensor(0.8333, dtype=torch.float64)
    """
    above = score[None, :] >= score[positive][:, None]
    return ((above & positive).double().sum(1) / above.double().sum(1)).mean()
