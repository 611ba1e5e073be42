"""Buffered rollouts: their rows and metrics, and their saved state."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import torch
from tensordict import TensorDict
from torch import Tensor

from rlcomp.checkpoint.state_fields import check_fields, field, tensor_field
from rlcomp.errors import CheckpointError, FlowError
from rlcomp.metrics import Ledger, record


@dataclass(frozen=True)
class BufferedRollout:
    """A finished rollout that waits for its step.

    Attributes:
        rows: the batch.
        ledger: metrics of the rollout, for that step.
        seconds: duration of the rollout; None if it is from a checkpoint.
    """

    rows: TensorDict
    ledger: Ledger
    seconds: float | None = None

    def rows_on(self, device: torch.device) -> TensorDict:
        """Return the rows on a device; rows from a checkpoint are on the CPU at first."""
        return self.rows.apply(lambda entry: entry.to(device))

    def state(self) -> dict[str, Any]:
        """Return the state for a checkpoint."""
        return {"rows": self.rows.to_dict(), "recorded": ledger_state(self.ledger)}


def record_age(rows: TensorDict, newest: int) -> None:
    """Record ``rollout/staleness``: the updates of the policy since each response token.

    Args:
        rows: the buffered rollout.
        newest: version of the policy now: the number of its updates.

    Raises:
        FlowError: a token is of a newer version.
    """
    age = newest - rows["policy_version"]
    if bool((age < 0)[rows["response_mask"]].any()):
        raise FlowError(
            "a buffered rollout is of newer weights than the policy's: the policy lost its version "
            "when the run was continued; keep it in a buffer or in run_state"
        )
    record("rollout/staleness", age, where=rows["response_mask"])


def load_buffered_rollout(state: object) -> BufferedRollout:
    """Return a rollout from its saved state.

    Raises:
        CheckpointError: a field is missing, the rows are no batch of tensors, or the ledger is
            invalid.
    """
    check_fields(state, ("rows", "recorded"))
    return BufferedRollout(
        load_rows(field(state, "rows", dict)), load_ledger(field(state, "recorded", dict))
    )


def load_rows(rows: dict[str, Any]) -> TensorDict:
    """Return a batch from its saved entries.

    Raises:
        CheckpointError: the entries are no tensors of equally many rows.
    """
    batch = TensorDict(rows).auto_batch_size_(1)
    if not _all_tensors(rows) or not batch.batch_dims:
        raise CheckpointError("a buffered rollout is no batch of tensors")
    return batch


def ledger_state(ledger: Ledger) -> dict[str, Any]:
    """Return the state of a ledger; its numbers are a tensor, because JSON has no NaN."""
    numbers = [[ledger.sums[name], ledger.counts[name]] for name in ledger.sums]
    return {
        "names": list(ledger.sums),
        "numbers": torch.tensor(numbers, dtype=torch.float64).reshape(-1, 2),
        "totals": sorted(ledger.totals),
        "samples": json.dumps(ledger.samples),
    }


def load_ledger(state: object) -> Ledger:
    """Return a ledger from its saved state.

    Raises:
        CheckpointError: the state is not a ledger; the message names the field.
    """
    check_fields(state, ("names", "numbers", "totals", "samples"))
    ledger, metrics = Ledger(), field(state, "names", list[str])
    numbers = tensor_field(state, "numbers", torch.float64, [len(metrics), 2])
    ledger.sums = dict(zip(metrics, numbers[:, 0].tolist(), strict=True))
    ledger.counts = dict(zip(metrics, numbers[:, 1].tolist(), strict=True))
    ledger.totals = {*field(state, "totals", list[str])}
    if not ledger.totals <= {*metrics}:
        raise CheckpointError("'totals' names what 'names' does not")
    try:
        samples = json.loads(field(state, "samples", str))
    except ValueError as error:
        raise CheckpointError(f"'samples' is not JSON: {error}") from error
    ledger.samples = field({"samples": samples}, "samples", list[dict[str, Any]])
    return ledger


def _all_tensors(value: object) -> bool:
    """Return whether a value is a tensor, or a mapping of tensors."""
    return isinstance(value, Tensor) or (
        isinstance(value, dict) and all(map(_all_tensors, value.values()))
    )
