"""Reward from a user's function."""

from __future__ import annotations

import copy
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import ClassVar

import torch
from tensordict import TensorDict

from rlcomp.arguments import NonEmptyText, PositiveFloat, PositiveInt, Unbuilt
from rlcomp.batch import decode_texts, encode_texts
from rlcomp.errors import ConfigError, RlcompWarning
from rlcomp.interfaces.batch_reward import (
    EXTRA_ARGUMENTS,
    batch_arguments,
    missing_argument_message,
    row_outcomes,
)
from rlcomp.interfaces.pooled_reward import PooledReward
from rlcomp.interfaces.reward import TextReward, row_note
from rlcomp.interfaces.scores import Score
from rlcomp.keys import Key
from rlcomp.metrics import step
from rlcomp.seed import named_seed
from rlcomp.workers.executor import CallExecutor, CallOutcome, ReturnedCall
from rlcomp.workers.pool import closing
from rlcomp.workers.signature import read_signature, unwrap

Row = Mapping[str, object]


class FunctionReward(PooledReward):
    """Reward from a user's function, which gets the columns that its parameters name.

    It is called for a row, ``(prompt, response, answer, **columns) -> float | dict | None``. If it
    names ``prompts`` or ``completions``, it is called like TRL's reward functions for the whole
    batch, with a list for each column: ``(prompts, completions, **columns) -> list``. A parameter
    keeps its default if the task has no such column; ``**columns`` gets all other columns. A dict
    holds named parts, ``R = sum_k w_k R_k``; None or NaN means "cannot be judged". A parameter
    ``seed`` gets a number that differs for each step, and for each row if the function is called
    for a row.

    A function given by its path, or an object given by its class, runs in the reward pool, where an
    exception makes its row invalid. A function object (``_partial_``, or in Python) runs in the
    process, where an exception stops the run.

    Reads and writes: see :class:`rlcomp.interfaces.pooled_reward.PooledReward`; for
    ``completion_ids`` it also reads ``tokens`` and ``response_mask`` ``[B, T]``.

    Args:
        function: a dotted path, such as ``my_module.passed``; a callable object,
            ``{_target_: my_module.Judge, threshold: 3}``; or a function.
        name: name of the part if there is only one.
        weights: weights of named parts, 1 if not given.
        correct_by: the part whose value of 1 or more means correct; ``name`` for a single number.
            null: no part; the scores may have any scale, and ``correct`` is not recorded.
        timeout: time limit of a call, in seconds.
        concurrency: maximum number of calls of an ``async`` function at a time in one worker.
        calls: the reward pool; by default the calls run in this process, without a limit.

    Raises:
        ConfigError: the function cannot be imported or called by name, its parameters cannot be
            read, or a function object is ``async``; (when called) it needs a column that the
            example lacks, returns no number, or returns several parts with weights without
            ``correct_by``.
        DataError: a function in the process returns a number that is infinite in float32.

    Examples:
        >>> passed = FunctionReward(
        ...     function=lambda response, longest: float(len(response) <= longest)
        ... )
        >>> passed.score_row({"prompt": "", "response": "four", "answer": "", "longest": 3})
        0.0
    """

    optional: ClassVar[tuple[Key, ...]] = (*TextReward.optional, "tokens", "response_mask")
    column_remedy = "rename the parameter, or give it a default"

    def __init__(
        self,
        *,
        function: Callable[..., object] | NonEmptyText | Unbuilt,
        name: NonEmptyText = "function",
        weights: dict[str, float] | None = None,
        correct_by: NonEmptyText | None = None,
        timeout: PositiveFloat = 10.0,
        concurrency: PositiveInt = 32,
        calls: CallExecutor | None = None,
    ) -> None:
        super().__init__(timeout=timeout, calls=calls)
        self.function = function
        self.name = name
        self.weights = dict(weights or {})
        self.correct_by = correct_by
        self.concurrency = concurrency
        try:
            self.signature = read_signature(function)
        except ConfigError as error:
            raise ConfigError(f"FunctionReward: {error}") from error
        if self.called_directly and self.signature.is_async:
            raise ConfigError(
                f"FunctionReward: function is {function!r:.100}, an async function, which is "
                "not awaited: make it a plain def that returns the score, or name it by its path"
            )
        # The function's own random numbers, the same after a resume and in any order of workers.
        self.seed = torch.initial_seed()

    @property
    def has_verdict(self) -> bool:
        """Return True if a part decides what is correct."""
        return self.correct_by is not None

    @property
    def called_directly(self) -> bool:
        """Return True if the argument is a function object."""
        return not isinstance(self.function, (str, Unbuilt))

    @property
    def needed_columns(self) -> frozenset[str]:
        """Return the columns of the task that the function needs."""
        available = (*EXTRA_ARGUMENTS, "answer") if self.signature.whole_batch else TextReward.reads
        return frozenset(self.signature.needed) - {*available, "seed"}

    @property
    def function_name(self) -> str:
        """Return the dotted path of the function, or the name of a function object."""
        if isinstance(self.function, Unbuilt):
            return self.function.target
        if isinstance(self.function, str):
            return self.function
        function = unwrap(self.function)
        return getattr(function, "__qualname__", type(function).__qualname__)

    @property
    def scorer(self) -> str:
        """Return the function with file and line, for messages about its scores."""
        return f"FunctionReward: {self.function_name}{_location(self.function)}"

    def trial(self, batch: TensorDict) -> str | None:
        """Score rows with a copy in new workers, so that calls have no side effect on the run.

        Return the fault if the calls of all rows failed (for the whole batch: its call), else None.
        Warn of rows that the function does not judge. Three kinds of functions are not tried: a
        function object, which may have a state; a function that cannot be copied; and a function
        that names ``completion_ids``.

        Raises:
            UserError: a call would stop the run.
        """
        if self.called_directly or "completion_ids" in self.signature.named:
            return None
        try:
            reward = copy.deepcopy(self)
        except (TypeError, NotImplementedError):  # it holds a lock or a connection
            return None
        with warnings.catch_warnings(), closing([reward.calls]):
            warnings.simplefilter("ignore")
            scored = reward(batch.clone())
        reasons, no_verdict = decode_texts(scored["invalid_reason"]), self._no_verdict_reason()
        if no_verdict in reasons:
            row, count = reasons.index(no_verdict), reasons.count(no_verdict)
            prompt, response = (decode_texts(scored[key])[row] for key in ("prompt", "response"))
            share = f"{count} of {len(reasons)} rows tried before the run"
            warnings.warn(
                f"{no_verdict}: {share}, such as the response {response!r:.80} to the prompt "
                f"{prompt!r:.80}; such rows are not trained on, and reward_check may stop the run",
                RlcompWarning,
                stacklevel=2,
            )
        if scored["reward_valid"].any():
            return None
        failed = [reason for reason in reasons if reason not in ("", no_verdict)]
        all_failed = self.signature.whole_batch or len(failed) == len(scored)
        return f"every row failed, the first by {failed[0]}" if failed and all_failed else None

    def _no_verdict_reason(self) -> str:
        """Return why a row is invalid although its call did not fail."""
        return (
            f"{self.function_name}{_location(self.function)} returned None or NaN, "
            "so that the row cannot be judged; return 0.0 if the response is wrong"
        )

    def forward(self, batch: TensorDict) -> TensorDict:
        """Score every row; write the reward entries and the reasons of invalid rows.

        A row whose environment failed gets the reason of a row that the function does not judge.
        """
        scored = super().forward(batch)
        valid, reasons = scored["reward_valid"].tolist(), decode_texts(scored["invalid_reason"])
        if not all(ok or reason for ok, reason in zip(valid, reasons, strict=True)):
            texts = [
                reason if ok else reason or self._no_verdict_reason()
                for ok, reason in zip(valid, reasons, strict=True)
            ]
            scored["invalid_reason"] = encode_texts(texts).to(scored["response"].device)
        return scored

    def score_row(self, row: Row) -> Score:
        """Return the value of the function for one row."""
        if not self.called_directly:
            return super().score_row(row)
        return self.function(**self.arguments(row))  # type: ignore[operator, return-value]

    def arguments(self, row: Row) -> dict[str, object]:
        """Return the function's arguments for a row.

        Raises:
            ConfigError: the function needs a column that the row lacks.
        """
        for name in sorted(self.signature.needed):
            if name not in row:
                raise ConfigError(f"FunctionReward: {missing_argument_message(name, row)}")
        # The texts are passed only if they are named; ``**`` gets columns alone.
        hidden = {*TextReward.reads} - {*self.signature.named}
        names = [name for name in row if name not in hidden and self.signature.takes(name)]
        return {name: row[name] for name in names}

    def outcomes(self, batch: TensorDict, rows: Sequence[Row]) -> list[CallOutcome]:
        """Return the outcome of each row."""
        if self.signature.whole_batch:
            seed = named_seed(self.seed, f"{step()}")
            arguments = batch_arguments(self.signature, batch, rows, seed)
            return row_outcomes(self._call_batch(arguments), len(rows))
        if "seed" in self.signature.named:
            rows = [
                {"seed": named_seed(self.seed, f"{step()}/{number}"), **row}
                for number, row in enumerate(rows)
            ]
        if self.called_directly:
            return [
                ReturnedCall(self._score_row(number, row), 0.0) for number, row in enumerate(rows)
            ]
        return self._map([self.arguments(row) for row in rows])

    def _score_row(self, number: int, row: Row) -> object:
        with row_note(number, row):
            return self.score_row(row)

    def _call_batch(self, arguments: dict[str, object]) -> CallOutcome:
        if not self.called_directly:
            return self._map([arguments])[0]
        if "trainer_state" in arguments:
            arguments["trainer_state"] = SimpleNamespace(global_step=step())
        logged: list[tuple[str, float]] = []
        if "log_metric" in arguments:
            arguments["log_metric"] = lambda name, value: logged.append((name, value))
        return ReturnedCall(self.function(**arguments), 0.0, metrics=logged)  # type: ignore[operator]

    def _map(self, arguments: Sequence[Mapping[str, object]]) -> list[CallOutcome]:
        return self.calls.map(
            self.function,  # type: ignore[arg-type]
            arguments,
            timeout=self.timeout,
            concurrency=self.concurrency if self.signature.is_async else 1,
            whole_batch=self.signature.whole_batch,
        )


def _location(function: object) -> str:
    """Return file and line of a function for messages; an empty text if it has none."""
    target = unwrap(function)
    if isinstance(function, str):
        module, _, name = function.rpartition(".")
        target = getattr(sys.modules.get(module), name, None)
    code = getattr(target, "__code__", None)
    return f" ({code.co_filename}:{code.co_firstlineno})" if code else ""
