"""Calibration of probabilities: reliability and expected calibration error."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor


class Bin(NamedTuple):
    """A group of predictions of similar confidence.

    Attributes:
        confidence: mean predicted probability.
        accuracy: share of the events that happened.
        number: predictions in the bin.
    """

    confidence: float
    accuracy: float
    number: int


def reliability(probability: Tensor, happened: Tensor, bins: int) -> list[Bin]:
    """Compute the reliability diagram in bins of equal mass, by rising probability.

    Args:
        probability: shape ``[N]``, in [0, 1].
        happened: shape ``[N]``, bool.
        bins: number of bins; fewer where there are fewer predictions.

    Source:
        Niculescu-Mizil and Caruana 2005; equal mass: Nguyen and O'Connor 2015, arXiv:1508.05154.

    Examples:
        >>> import torch
        >>> reliability(torch.tensor([0.75, 0.5, 0.25]), torch.tensor([True, True, False]), 1)
        [Bin(confidence=0.5, accuracy=0.6666666666666666, number=3)]
    """
    order = probability.argsort(stable=True)
    parts = [part for part in order.tensor_split(min(bins, max(len(order), 1))) if len(part)]
    return [
        Bin(
            float(probability[part].double().mean()),
            float(happened[part].double().mean()),
            len(part),
        )
        for part in parts
    ]


def expected_calibration_error(bins: list[Bin]) -> float:
    """Compute the ECE: ``sum_k n_k / N |accuracy_k - confidence_k|``, from 0 to 1.

    Args:
        bins: at least one bin.

    Source:
        Guo et al. 2017, arXiv:1706.04599, eq. 3.

    Examples:
        >>> expected_calibration_error([Bin(0.75, 1.0, 2), Bin(0.5, 0.25, 2)])
        0.25
    """
    total = sum(part.number for part in bins)
    return sum(part.number * abs(part.accuracy - part.confidence) for part in bins) / total
