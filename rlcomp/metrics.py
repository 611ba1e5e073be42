"""Metrics: any code records them by ``record("concept/name", value)``; a step logs their means."""

from __future__ import annotations

import contextlib
import contextvars
import math
from collections.abc import Callable, Iterator
from typing import Literal

import torch
from torch import Tensor

from rlcomp.errors import ConfigError, ShapeError


class Ledger:
    """Sums and counts of recorded metrics, samples, and requests to the loop of the run.

    Args:
        progress: progress of the phase, in (0, 1); 0 outside a run.
        step: number of earlier steps of the run.

    Attributes:
        sums: sum of the observations of each metric.
        counts: number of observations of each metric; 1 for an amount, so that its mean is its sum.
        totals: names of the amounts.
        samples: the recorded samples, each a mapping of columns.
        best: metric, direction and value of :func:`keep_best`; None without a request.
        ended: reason of :func:`end_phase`; None without a request.
    """

    def __init__(self, progress: float = 0.0, step: int = 0) -> None:
        self.sums: dict[str, float] = {}
        self.counts: dict[str, float] = {}
        self.totals: set[str] = set()
        self.samples: list[dict[str, object]] = []
        self.progress = progress
        self.step = step
        self.best: dict[str, object] | None = None
        self.ended: str | None = None

    def add(self, name: str, total: float, count: float) -> None:
        """Add ``count`` observations whose sum is ``total``.

        Raises:
            ConfigError: an amount has the same name.
        """
        if name in self.totals:
            raise _both_kinds(name)
        self.sums[name] = self.sums.get(name, 0.0) + total
        self.counts[name] = self.counts.get(name, 0.0) + count

    def add_total(self, name: str, value: float) -> None:
        """Add an amount, whose sum over the step is logged.

        Raises:
            ConfigError: a mean has the same name.
        """
        if name in self.sums and name not in self.totals:
            raise _both_kinds(name)
        self.sums[name] = self.sums.get(name, 0.0) + value
        self.counts[name] = 1.0
        self.totals.add(name)

    def merge(self, other: Ledger, prefix: str = "") -> None:
        """Add the contents of another ledger, from an evaluation or a rollout in another process.

        Args:
            other: ledger whose sums, counts, samples and requests are added.
            prefix: prefix of the other ledger's metric names.

        Raises:
            ConfigError: a name is a mean in one ledger and an amount in the other.
        """
        for name, total in other.sums.items():
            if name in other.totals:
                self.add_total(prefix + name, total)
            else:
                self.add(prefix + name, total, other.counts[name])
        self.samples.extend(other.samples)
        if other.best is not None:
            self.best = {**other.best, "metric": f"{prefix}{other.best['metric']}"}
        self.ended = self.ended or other.ended

    def restore(self, saved: Ledger) -> None:
        """Replace the contents by those of ``saved``, an earlier :meth:`copy`."""
        vars(self).update(vars(saved.copy()))

    def copy(self) -> Ledger:
        """Return a ledger with the same contents."""
        ledger = Ledger(self.progress, self.step)
        ledger.sums, ledger.counts = dict(self.sums), dict(self.counts)
        ledger.totals, ledger.samples = set(self.totals), list(self.samples)
        ledger.best, ledger.ended = self.best, self.ended
        return ledger

    def means(self) -> dict[str, float]:
        """Return the mean of every metric with at least one observation."""
        return {name: self.sums[name] / n for name, n in self.counts.items() if n > 0}


def _both_kinds(name: str) -> ConfigError:
    return ConfigError(
        f"metric {name!r} is recorded both as a mean (record) and as an amount (record_total): "
        "rename one of them"
    )


_ledger: contextvars.ContextVar[Ledger | None] = contextvars.ContextVar("ledger", default=None)


def record(name: str, value: Tensor | float, where: Tensor | None = None) -> None:
    """Record observations of a metric; the mean of the step is logged. No-op outside a run.

    Args:
        name: ``<concept>/<name>``, e.g. ``"trust_region/clip_fraction"``.
        value: one number, or a tensor of observations of any shape.
        where: mask of the observations that count, bool, shape of a tensor ``value``; None: all of
            them. If it is False everywhere, no observation is added. Ignored for a number.

    Raises:
        ShapeError: ``where`` has another dtype or shape.
        ConfigError: the name is that of an amount (:func:`record_total`).

    Examples:
        >>> import torch
        >>> with recording() as ledger:
        ...     valid = torch.tensor([True, True, False])
        ...     record("reward/mean", torch.tensor([1.0, 3.0, 8.0]), where=valid)
        >>> ledger.means()
        {'reward/mean': 2.0}
    """
    ledger = _ledger.get()
    if ledger is None:
        return
    if not isinstance(value, Tensor):
        ledger.add(name, float(value), 1.0)
        return
    observations = value.detach().double()
    if where is not None:
        if where.dtype != torch.bool or where.shape != observations.shape:
            raise ShapeError(
                f"record({name!r}): where is {where.dtype} {list(where.shape)}: must be a bool "
                f"mask of the observations' shape, {list(observations.shape)}"
            )
        observations = observations[where]
    ledger.add(name, float(observations.sum()), float(observations.numel()))


def record_total(name: str, value: float) -> None:
    """Record an amount (tokens, frames), whose sum over the step is logged. No-op outside a run.

    Raises:
        ConfigError: the name is that of a mean (:func:`record`).
    """
    ledger = _ledger.get()
    if ledger is not None:
        ledger.add_total(name, float(value))


def record_sample(**columns: object) -> None:
    """Record one sample (prompt, response, ...) for ``samples.jsonl`` and trackers, if in a run."""
    ledger = _ledger.get()
    if ledger is not None:
        ledger.samples.append(columns)


def current_means() -> dict[str, float]:
    """Return the mean of each metric recorded so far in this step; empty outside a run."""
    ledger = _ledger.get()
    return {} if ledger is None else ledger.means()


def keep_best(*, metric: str, better: Literal["higher", "lower"], value: float) -> None:
    """Ask the loop to save the run's state after this step as the best state of the phase.

    Args:
        metric: name of the metric that decides.
        better: direction of better values.
        value: value of the metric in this step.

    Raises:
        ConfigError: the metric has no name, the direction is unknown, or the value is not a finite
            number.
    """
    _check_text("keep_best: metric", metric)
    if better not in ("higher", "lower"):
        raise ConfigError(f"keep_best: better is {better!r}: must be 'higher' or 'lower'")
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not number or not math.isfinite(value):
        raise ConfigError(
            f"keep_best: value of {metric} is {value!r:.60}: must be a finite number; convert a "
            "tensor by float(value), and do not call keep_best in a step without a value"
        )
    ledger = _ledger.get()
    if ledger is not None:
        ledger.best = {"metric": metric, "better": better, "value": float(value)}


def end_phase(reason: str) -> None:
    """Ask the loop to end the phase after this step.

    Args:
        reason: text for the log; only the first reason of a step is logged.

    Raises:
        ConfigError: the reason is not a text, or is empty.
    """
    _check_text("end_phase: reason", reason)
    ledger = _ledger.get()
    if ledger is not None:
        ledger.ended = ledger.ended or reason


def _check_text(argument: str, text: object) -> None:
    if not isinstance(text, str) or not text:
        raise ConfigError(f"{argument} is {text!r:.60}: must be a text that is not empty")


def merge(other: Ledger) -> None:
    """Add the contents of another ledger to the active one. No-op outside a run."""
    ledger = _ledger.get()
    if ledger is not None:
        ledger.merge(other)


def restore_point() -> Callable[[], None]:
    """Return a function that removes everything recorded after this call. No-op outside a run.

    Examples:
        >>> with recording() as ledger:
        ...     record("loss/policy", 1.0)
        ...     restore = restore_point()
        ...     record("loss/policy", float("nan"))
        ...     restore()
        >>> ledger.means()
        {'loss/policy': 1.0}
    """
    ledger = _ledger.get()
    if ledger is None:
        return lambda: None
    backup = ledger.copy()
    return lambda: ledger.restore(backup)


def progress() -> float:
    """Return the progress of the current phase, in (0, 1); 0 outside a run.

    Step ``i`` of ``n``, counted from 0, has the progress ``(i + 1) / (n + 1)``. It is never exactly
    0 or 1, so that the learning rate is not 0 in the first step of a warm-up, nor in the last step
    of a decay.
    """
    ledger = _ledger.get()
    return ledger.progress if ledger is not None else 0.0


def step() -> int:
    """Return the number of earlier steps of the run; 0 outside a run."""
    ledger = _ledger.get()
    return ledger.step if ledger is not None else 0


@contextlib.contextmanager
def recording(
    prefix: str = "", progress: float | None = None, step: int | None = None
) -> Iterator[Ledger]:
    """Record metrics of the context in a new ledger, and yield the ledger.

    Args:
        prefix: prefix of the names under which the outer ledger gets the metrics at the end of a
            context without an exception; empty: it gets none.
        progress: progress of the phase; None: the outer ledger's.
        step: number of earlier steps; None: the outer ledger's.
    """
    outer = _ledger.get() or Ledger()
    inner = Ledger(
        outer.progress if progress is None else progress, outer.step if step is None else step
    )
    token = _ledger.set(inner)
    try:
        yield inner
    finally:
        _ledger.reset(token)
    if prefix:
        outer.merge(inner, prefix)


@contextlib.contextmanager
def nested_recording() -> Iterator[Ledger]:
    """Record metrics of the context in a new ledger; at the end, or after an error, merge it."""
    inner = Ledger(progress(), step())
    token = _ledger.set(inner)
    try:
        yield inner
    finally:
        _ledger.reset(token)
        merge(inner)
