"""Labels of examples as a tensor."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from rlcomp.data.label_rows import COLUMN
from rlcomp.errors import DataError
from rlcomp.interfaces.task import Example


def label_rows(examples: Sequence[Example], labels: Sequence[str]) -> Tensor:
    """Return the labels of examples; NaN where unknown.

    Returns:
        Shape ``[N, K]``, float32.

    Raises:
        DataError: an example has no column ``labels``.
    """
    columns = [example.columns.get(COLUMN) for example in examples]
    for example, each in zip(examples, columns, strict=True):
        if not isinstance(each, dict):
            raise DataError(
                f"{example.source or repr(example.prompt[:40])}: an example has no column "
                f"{COLUMN!r}: set task=labelled_texts"
            )
    rows = [[each.get(name) for name in labels] for each in columns if isinstance(each, dict)]
    return torch.tensor([[math.nan if value is None else value for value in row] for row in rows])
