"""Rollouts that wait: their rows, and what was recorded while they were made."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import torch
from tensordict import TensorDict
from torch import Tensor

from rlcomp.checkpoint.state_fields import field, names, tensor_field
from rlcomp.errors import CheckpointError, FlowError
from rlcomp.metrics import Ledger, record


@dataclass(frozen=True)
class BufferedRollout:
    """A rollout that waits for the step that consumes it.

    Attributes:
        rows: the batch.
        ledger: what was recorded while it was made, for that step.
        seconds: that it took, on the clock; None out of a checkpoint, which holds no times.
    """

    rows: TensorDict
    ledger: Ledger
    seconds: float | None = None

    def on(self, device: torch.device) -> TensorDict:
        """A batch of its rows on a device: out of a checkpoint they come on the CPU."""
        return self.rows.apply(lambda entry: entry.to(device))

    def state(self) -> dict[str, Any]:
        """What a checkpoint holds of it."""
        return {"rows": self.rows.to_dict(), "recorded": ledger_state(self.ledger)}


def record_age(rows: TensorDict, newest: int) -> None:
    """Record ``rollout/staleness``, the versions that response tokens are behind.

    Args:
        rows: a rollout that waited.
        newest: version of the policy.

    Raises:
        FlowError: a token is of newer weights.
    """
    age = newest - rows["policy_version"]
    if bool((age < 0)[rows["response_mask"]].any()):
        raise FlowError(
            "a rollout that waited is of newer weights than the policy's: the policy lost its "
            "version when the run was continued; keep it in a buffer or in run_state"
        )
    record("rollout/staleness", age, where=rows["response_mask"])


def load_buffered_rollout(state: object) -> BufferedRollout:
    """A rollout from its saved state.

    Raises:
        CheckpointError: it is no batch of tensors, or what was recorded is none.
    """
    names(state, ("rows", "recorded"))
    return BufferedRollout(
        load_rows(field(state, "rows", dict)), load_ledger(field(state, "recorded", dict))
    )


def load_rows(rows: dict[str, Any]) -> TensorDict:
    """A batch from its saved entries.

    Raises:
        CheckpointError: they are no tensors of equally many rows.
    """
    batch = TensorDict(rows).auto_batch_size_(1)
    if not _of_tensors(rows) or not batch.batch_dims:
        raise CheckpointError("a rollout that waits is no batch of tensors")
    return batch


def ledger_state(ledger: Ledger) -> dict[str, Any]:
    """What a checkpoint holds of a ledger; numbers as tensors, since JSON has no NaN."""
    both = [[ledger.sums[name], ledger.counts[name]] for name in ledger.sums]
    return {
        "names": list(ledger.sums),
        "numbers": torch.tensor(both, dtype=torch.float64).reshape(-1, 2),
        "totals": sorted(ledger.totals),
        "samples": json.dumps(ledger.samples),
    }


def load_ledger(state: object) -> Ledger:
    """A ledger from its saved state.

    Raises:
        CheckpointError: it is none; names the field.
    """
    names(state, ("names", "numbers", "totals", "samples"))
    ledger, known = Ledger(), field(state, "names", list[str])
    numbers = tensor_field(state, "numbers", torch.float64, [len(known), 2])
    ledger.sums = dict(zip(known, numbers[:, 0].tolist(), strict=True))
    ledger.counts = dict(zip(known, numbers[:, 1].tolist(), strict=True))
    ledger.totals = {*field(state, "totals", list[str])}
    if not ledger.totals <= {*known}:
        raise CheckpointError("'totals' names what 'names' does not")
    try:
        samples = json.loads(field(state, "samples", str))
    except ValueError as error:
        raise CheckpointError(f"'samples' is no JSON: {error}") from error
    ledger.samples = field({"samples": samples}, "samples", list[dict[str, Any]])
    return ledger


def _of_tensors(value: object) -> bool:
    """Whether a value is a tensor, or a mapping of such."""
    return isinstance(value, Tensor) or (
        isinstance(value, dict) and all(map(_of_tensors, value.values()))
    )
