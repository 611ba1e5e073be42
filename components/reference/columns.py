"""Reference log-probs from the data, precomputed by another model."""

from __future__ import annotations

import torch
from tensordict import TensorDict

from rlcomp.arguments import NonEmptyText
from rlcomp.batch import decode_columns
from rlcomp.component import Component
from rlcomp.errors import DataError


class ColumnReference(Component):
    """Reference log-probs of pairs, precomputed, from columns of the data.

    A column holds the list of the log-probs of the answer's tokens, including EOS, or their sum. A
    sum is divided equally among the tokens, which is exact for scores of whole answers. Scores of
    single tokens (``loss/score=length_desensitised``) need the list.

    Reads ``response_mask`` ``[B, T]``, ``chosen`` ``[B]`` and ``columns``. Writes ``ref_log_probs``
    ``[B, T]``, nats, 0 outside the mask.

    Args:
        chosen: column of the chosen answer's log-probs.
        rejected: column of the rejected answer's log-probs.

    Raises:
        DataError: (when called) a row has no such column, or the number of values differs from the
            number of tokens.
    """

    reads = ("response_mask", "chosen")
    optional = ("columns",)
    writes = ("ref_log_probs",)

    def __init__(
        self,
        *,
        chosen: NonEmptyText = "ref_chosen_logps",
        rejected: NonEmptyText = "ref_rejected_logps",
    ) -> None:
        super().__init__()
        self.chosen = chosen
        self.rejected = rejected

    def forward(self, batch: TensorDict) -> TensorDict:
        """Write the log-probs of the columns."""
        mask = batch["response_mask"]
        log_probs = torch.zeros(mask.shape, device=mask.device)
        columns = decode_columns(batch, [self.chosen, self.rejected])
        for row, (entries, chosen) in enumerate(
            zip(columns, batch["chosen"].tolist(), strict=True)
        ):
            name = self.chosen if chosen else self.rejected
            values = _token_log_probs(name, entries.get(name), int(mask[row].sum()))
            log_probs[row, mask[row]] = torch.tensor(values, device=mask.device)
        batch["ref_log_probs"] = log_probs
        return batch


def _token_log_probs(name: str, value: object, count: int) -> list[float]:
    """Return the log-prob of each of ``count`` tokens from the value of the column ``name``."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return [value / max(count, 1)] * count
    fits = isinstance(value, list) and all(isinstance(item, (int, float)) for item in value)
    if not fits or len(value) != count:  # type: ignore[arg-type]
        content = f"{len(value)} values" if isinstance(value, list) else f"{value!r:.60}"
        raise DataError(
            f"column {name!r} of a pair holds {content}, but the answer has {count} tokens, "
            "including EOS: write one log-prob per token or their sum, or use reference=frozen"
        )
    return [float(item) for item in value]  # type: ignore[attr-defined]
