"""Reference by domain: several teachers for one student."""

from __future__ import annotations

from typing import Annotated, ClassVar

import torch
from tensordict import TensorDict
from torch import nn

from rlcomp.arguments import MinLen, NonEmptyText
from rlcomp.batch import decode_columns
from rlcomp.component import Component
from rlcomp.errors import DataError, nearest
from rlcomp.keys import Key


class Teachers(Component):
    """Reference by domain, which scores each row with its domain's specialist.

    Reads what the references read, and ``columns``. Writes ``ref_log_probs`` ``[B, T]``. Records
    the references' metrics over all rows.

    Args:
        references: the references by domain, such as ``reference=teacher`` with a teacher for
            each.
        column: column of the examples with the name of the domain.

    Raises:
        DataError: (when called) an example has no such column, or it names no domain.

    Source:
        DeepSeek-AI 2025 (DeepSeek-V3.2), arXiv:2512.02556, section 3: specialist distillation.
    """

    reads = ("tokens", "attention_mask", "response_mask")
    optional = ("columns", "rollout_log_probs")
    writes: ClassVar[tuple[Key, ...]] = ("ref_log_probs",)
    runs = ("references",)
    column_remedy: ClassVar[str] = "write it into the task's data, or set reference.column"

    def __init__(
        self,
        *,
        references: Annotated[dict[str, Component], MinLen(1)],
        column: NonEmptyText = "verify_with",
    ) -> None:
        super().__init__()
        self.references = nn.ModuleDict(references)
        self.column = column

    @property
    def needed_columns(self) -> frozenset[str]:
        """The column with the name of the domain."""
        return frozenset({self.column})

    def forward(self, batch: TensorDict) -> TensorDict:
        """Score every row by its domain's reference."""
        scored: dict[str, torch.Tensor] = {}
        for domain, rows in self._rows(batch).items():
            result = self.references[domain](batch[rows].copy())
            for key in map(str, self.writes):
                empty = result[key].new_zeros(len(batch), *result[key].shape[1:])
                scored.setdefault(key, empty)[rows] = result[key]
        return batch.update(scored)

    def _rows(self, batch: TensorDict) -> dict[str, list[int]]:
        """Return the rows of each domain that occurs."""
        rows: dict[str, list[int]] = {}
        for row, columns in enumerate(decode_columns(batch, only=[self.column])):
            domain = columns.get(self.column)
            if not isinstance(domain, str) or domain not in self.references:
                near = nearest(str(domain), [*self.references])
                raise DataError(
                    f"Teachers: row {row} has {domain!r} in its column {self.column!r}, which "
                    f"names no reference{near}: write it into the data, or set reference.column"
                )
            rows.setdefault(domain, []).append(row)
        return rows
