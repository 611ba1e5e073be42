"""Base class of text rewards whose function runs in the reward pool."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar

import torch
from tensordict import TensorDict

from rlcomp.arguments import PositiveFloat, Unbuilt
from rlcomp.batch import encode_texts
from rlcomp.errors import RlcompWarning
from rlcomp.interfaces.reward import TextReward, text_rows
from rlcomp.interfaces.scores import Score, check_metric_name
from rlcomp.keys import Key
from rlcomp.metrics import Ledger, merge, record, record_total
from rlcomp.workers.executor import CallExecutor, CallOutcome, FailedCall, ReturnedCall
from rlcomp.workers.in_process import InProcess

Row = Mapping[str, object]


class PooledReward(TextReward):
    """Text reward by a function that runs for each row in worker processes, under limits.

    A subclass sets ``function``; :meth:`arguments` returns its arguments for a row. The function
    returns a number, a mapping of named parts, or None if it cannot judge. A call that fails (limit
    of time, memory or output, death of its process, exception, score that is infinite in float32)
    makes its row invalid, and the run continues: ``reward_check`` stops a run with too many of
    them.

    Reads the keys of :class:`rlcomp.interfaces.reward.TextReward`. Writes its keys and
    ``invalid_reason`` (``[B, W]`` uint8 texts). Also records ``reward/failed/<kind>`` (rows; only
    kinds that occur), ``reward/retried`` (rows with more than one call: another run may then
    differ), ``time/reward_call`` and ``time/reward_call_max`` (seconds of the calls that returned),
    and ``reward/<name>`` for each metric that the function logs.

    Args:
        timeout: limit of a call, in seconds.
        calls: executes the calls; None: this process does, without limits.

    Attributes:
        function: dotted path of the function, an object of a class that is still to be built, or
            a function object, for a subclass that calls it directly.
    """

    writes: ClassVar[tuple[Key, ...]] = (*TextReward.writes, "invalid_reason")

    function: Callable[..., object] | str | Unbuilt

    def __init__(self, *, timeout: PositiveFloat = 10.0, calls: CallExecutor | None = None) -> None:
        super().__init__()
        self.timeout = timeout
        self.calls: CallExecutor = InProcess() if calls is None else calls
        self._warned: set[str] = set()

    @property
    def called_directly(self) -> bool:
        """Return True if calls bypass the pool, so that an infinite score stops the run."""
        return False

    def arguments(self, row: Row) -> Mapping[str, object]:
        """Return the arguments of the function for a row, by name, in JSON types."""
        raise NotImplementedError

    def outcomes(self, batch: TensorDict, rows: Sequence[Row]) -> list[CallOutcome]:
        """Return the outcome of each row's call."""
        del batch
        arguments = [self.arguments(row) for row in rows]
        return self.calls.map(self.function, arguments, timeout=self.timeout)  # type: ignore[arg-type]

    def forward(self, batch: TensorDict) -> TensorDict:
        """Score every row; write the reward entries and the reasons of invalid rows."""
        rows = text_rows(batch, TextReward.reads)
        outcomes = self._record_outcomes(self.outcomes(batch, rows))
        reasons = [
            outcome.message if isinstance(outcome, FailedCall) else "" for outcome in outcomes
        ]
        batch["invalid_reason"] = encode_texts(reasons).to(batch["response"].device)
        return self.write_scores(batch, rows, _values(outcomes))

    def score_row(self, row: Row) -> Score:
        """Return the score of one row, by a call in the pool."""
        (score,) = self.score_rows([row], [0])
        return score  # type: ignore[return-value]

    def score_rows(self, rows: Sequence[Row], numbers: Sequence[int]) -> list[object]:
        """Return the score of each row; None if its call failed."""
        del numbers
        batch = TensorDict({}, batch_size=[len(rows)])
        return _values(self._record_outcomes(self.outcomes(batch, rows)))

    def _record_outcomes(self, outcomes: list[CallOutcome]) -> list[CallOutcome]:
        """Record the calls; return their outcomes, with infinite scores as failures."""
        if not self.called_directly:
            outcomes = [_refuse_infinite(outcome) for outcome in outcomes]
        returned = [outcome for outcome in outcomes if isinstance(outcome, ReturnedCall)]
        seconds = [call.seconds for call in returned]
        record("time/reward_call", torch.tensor(seconds))
        if seconds:
            record("time/reward_call_max", max(seconds))
        for name, value in (metric for call in returned for metric in call.metrics):
            check_metric_name(f"reward {self.name!r} logged a metric", name)
            record(f"reward/{name}", value)
        failed = [outcome for outcome in outcomes if isinstance(outcome, FailedCall)]
        for kind in sorted({call.kind for call in failed}):
            messages = [call.message for call in failed if call.kind == kind]
            record_total(f"reward/failed/{kind}", len(messages))
            self._warn_once(kind, f"{len(messages)} of {len(outcomes)}", messages[0])
        retried = sum(outcome.tries > 1 for outcome in outcomes)
        if retried:
            record_total("reward/retried", retried)
        return outcomes

    def _warn_once(self, kind: str, share: str, message: str) -> None:
        if kind not in self._warned:
            self._warned.add(kind)
            warnings.warn(
                f"reward {self.name!r}: {share} calls failed ({kind}) and their rows are invalid; "
                f"the first: {message}. Further ones are counted: reward/failed/{kind}",
                RlcompWarning,
                stacklevel=2,
            )


def _values(outcomes: Sequence[CallOutcome]) -> list[object]:
    return [outcome.value if isinstance(outcome, ReturnedCall) else None for outcome in outcomes]


def record_calls(part: Ledger) -> None:
    """Record the metrics of a part's calls, but not the part's reward metrics.

    Args:
        part: everything that the part recorded. Its failures, repeated calls, seconds and counts
            of the sandbox are recorded again, and nothing else.
    """
    calls = Ledger()
    for name, total in part.sums.items():
        if name.startswith(("reward/failed/", "reward/retried", "time/reward_call", "sandbox/")):
            if name in part.totals:
                calls.add_total(name, total)
            else:
                calls.add(name, total, part.counts[name])
    merge(calls)


def _refuse_infinite(outcome: CallOutcome) -> CallOutcome:
    """Return the outcome; a failure if the score or a part is infinite in float32."""
    if isinstance(outcome, ReturnedCall):
        value = outcome.value
        numbers = value.values() if isinstance(value, Mapping) else [value]
        if any(isinstance(n, (int, float)) and _is_infinite(n) for n in numbers):
            message = f"returned {str(value)[:60]}, which is infinite in float32"
            return FailedCall("error", message, outcome.tries)
    return outcome


def _is_infinite(number: float) -> bool:
    try:
        return math.isinf(torch.tensor(float(number), dtype=torch.float32).item())
    except OverflowError:
        return True
