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
from rlcomp.workers.calls import Calls, Failed, Outcome, Scored
from rlcomp.workers.in_process import InProcess

Row = Mapping[str, object]


class PooledReward(TextReward):
    """A text reward whose rows are scored by a function in worker processes, each under limits.

    A subclass names the ``function`` by its dotted path and says in :meth:`arguments` what it is
    called with for a row; it returns a number, a mapping of named parts, or None where it cannot
    judge. A call that fails (limit of time, memory or output, death of its process, exception)
    makes its row invalid and goes on: ``reward_check`` stops a run in which too many do.

    Reads what :class:`rlcomp.interfaces.reward.TextReward` does. Writes its keys and
    ``invalid_reason`` (``[B, W]`` uint8 texts). Records beside its metrics ``reward/failed/<kind>``
    (rows; only of kinds that occur), ``reward/retried`` (rows whose call was made more than once:
    then another run may differ), ``time/reward_call`` and ``time/reward_call_max`` (seconds of the
    calls that returned).

    Args:
        timeout: limit of a call, in seconds.
        calls: what runs the calls; in the process itself if not given.

    Attributes:
        function: dotted path.
    """

    writes: ClassVar[tuple[Key, ...]] = (*TextReward.writes, "invalid_reason")

    function: Callable[..., object] | str | Unbuilt

    def __init__(self, *, timeout: PositiveFloat = 10.0, calls: Calls | None = None) -> None:
        super().__init__()
        self.timeout = timeout
        self.calls: Calls = InProcess() if calls is None else calls
        self._told: set[str] = set()

    @property
    def called_directly(self) -> bool:
        """Whether the calls pass by the pool: then a score that is infinite stops the run."""
        return False

    def arguments(self, row: Row) -> Mapping[str, object]:
        """What the function is called with for a row, by name, as JSON holds it."""
        raise NotImplementedError

    def outcomes(self, batch: TensorDict, rows: Sequence[Row]) -> list[Outcome]:
        """What came of each row's call."""
        del batch
        arguments = [self.arguments(row) for row in rows]
        return self.calls.map(self.function, arguments, timeout=self.timeout)  # type: ignore[arg-type]

    def forward(self, batch: TensorDict) -> TensorDict:
        """Score every row; write the reward entries and why a row is invalid."""
        rows = text_rows(batch, TextReward.reads)
        outcomes = self._told_of(self.outcomes(batch, rows))
        reasons = [one.message if isinstance(one, Failed) else "" for one in outcomes]
        batch["invalid_reason"] = encode_texts(reasons).to(batch["response"].device)
        return self.write_scores(batch, rows, _values(outcomes))

    def score_row(self, row: Row) -> Score:
        """The score of one row, by a call in the pool."""
        (score,) = self.score_rows([row], [0])
        return score  # type: ignore[return-value]

    def score_rows(self, rows: Sequence[Row], numbers: Sequence[int]) -> list[object]:
        """The score of each row; None where its call failed."""
        del numbers
        batch = TensorDict({}, batch_size=[len(rows)])
        return _values(self._told_of(self.outcomes(batch, rows)))

    def _told_of(self, outcomes: list[Outcome]) -> list[Outcome]:
        """The outcomes, recorded, and failures where a score is infinite."""
        if not self.called_directly:
            outcomes = [_finite(outcome) for outcome in outcomes]
        self._record(outcomes)
        return outcomes

    def _record(self, outcomes: Sequence[Outcome]) -> None:
        scored = [one for one in outcomes if isinstance(one, Scored)]
        seconds = [one.seconds for one in scored]
        record("time/reward_call", torch.tensor(seconds))
        if seconds:
            record("time/reward_call_max", max(seconds))
        for name, value in (each for one in scored for each in one.metrics):
            check_metric_name(f"reward {self.name!r} logged a metric", name)
            record(f"reward/{name}", value)
        failed = [one for one in outcomes if isinstance(one, Failed)]
        for kind in sorted({one.kind for one in failed}):
            messages = [one.message for one in failed if one.kind == kind]
            record_total(f"reward/failed/{kind}", len(messages))
            self._tell_once(kind, f"{len(messages)} of {len(outcomes)}", messages[0])
        retried = sum(one.tries > 1 for one in outcomes)
        if retried:
            record_total("reward/retried", retried)

    def _tell_once(self, kind: str, share: str, message: str) -> None:
        if kind not in self._told:
            self._told.add(kind)
            warnings.warn(
                f"reward {self.name!r}: {share} calls failed ({kind}) and their rows are invalid; "
                f"the first: {message}. Further ones are counted: reward/failed/{kind}",
                RlcompWarning,
                stacklevel=2,
            )


def _values(outcomes: Sequence[Outcome]) -> list[object]:
    return [one.value if isinstance(one, Scored) else None for one in outcomes]


def record_calls_of(part: Ledger) -> None:
    """Record what a part of a reward told of its calls, whose own metrics are not the reward's.

    Args:
        part: all that the part recorded; of these, failures, calls made again, seconds and what
            the sandbox did count.
    """
    kept = Ledger()
    for name, total in part.sums.items():
        if name.startswith(("reward/failed/", "reward/retried", "time/reward_call", "sandbox/")):
            if name in part.totals:
                kept.add_total(name, total)
            else:
                kept.add(name, total, part.counts[name])
    merge(kept)


def _finite(outcome: Outcome) -> Outcome:
    """The outcome; a failure where the score is infinite in float32."""
    if isinstance(outcome, Scored):
        value = outcome.value
        numbers = value.values() if isinstance(value, Mapping) else [value]
        if any(isinstance(n, (int, float)) and _infinite(n) for n in numbers):
            told = f"returned {str(value)[:60]}, which is infinite in float32"
            return Failed("error", told, outcome.tries)
    return outcome


def _infinite(number: float) -> bool:
    try:
        return math.isinf(torch.tensor(float(number), dtype=torch.float32).item())
    except OverflowError:
        return True
