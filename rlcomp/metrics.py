"""Metrics: ``record("concept/name", value, where=mask)`` from anywhere, written once a step."""

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
    """Metric ledger: sums and counts by name, samples, progress of the phase, steps of the run."""

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
            ConfigError: the name belongs to an amount.
        """
        if name in self.totals:
            raise _both_kinds(name)
        self.sums[name] = self.sums.get(name, 0.0) + total
        self.counts[name] = self.counts.get(name, 0.0) + count

    def add_total(self, name: str, value: float) -> None:
        """Add an amount; its sum over the step is logged.

        Raises:
            ConfigError: the name belongs to a mean.
        """
        if name in self.sums and name not in self.totals:
            raise _both_kinds(name)
        self.sums[name] = self.sums.get(name, 0.0) + value
        self.counts[name] = 1.0
        self.totals.add(name)

    def merge(self, other: Ledger, prefix: str = "") -> None:
        """Add the contents of another ledger, from an evaluation or a rollout in another process.

        Args:
            other: its sums and counts are added, its samples appended; its best step and early end
                are taken over.
            prefix: prefix of its names.

        Raises:
            ConfigError: a name belongs to a mean in one and to an amount in the other.
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
        """Restore the state of the copy ``saved``; forget everything recorded since."""
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
        "give one of them another name"
    )


_ledger: contextvars.ContextVar[Ledger | None] = contextvars.ContextVar("ledger", default=None)


def record(name: str, value: Tensor | float, where: Tensor | None = None) -> None:
    """Record observations of a metric; the mean of the step is logged. No-op outside a run.

    Args:
        name: ``<concept>/<name>``, e.g. ``"trust_region/clip_fraction"``.
        value: one number, or a tensor of observations of any shape.
        where: bool, same shape: the observations that count. Without any, nothing is logged.

    Examples:
        >>> import torch
        >>> with recording() as ledger:
        ...     seen = torch.tensor([True, True, False])
        ...     record("reward/mean", torch.tensor([1.0, 3.0, 8.0]), where=seen)
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
                f"record({name!r}): where is {where.dtype} {list(where.shape)}: it says which "
                f"observations of {list(observations.shape)} count, a bool of that shape"
            )
        observations = observations[where]
    ledger.add(name, float(observations.sum()), float(observations.numel()))


def record_total(name: str, value: float) -> None:
    """Record an amount (tokens, frames); the sum of the step is logged."""
    ledger = _ledger.get()
    if ledger is not None:
        ledger.add_total(name, float(value))


def record_sample(**columns: object) -> None:
    """Keep one sample (prompt, response, reward, ...) for ``samples.jsonl`` and the trackers."""
    ledger = _ledger.get()
    if ledger is not None:
        ledger.samples.append(columns)


def measured() -> dict[str, float]:
    """Return the means of what this step has recorded so far; empty outside a run."""
    ledger = _ledger.get()
    return {} if ledger is None else ledger.means()


def keep_best(*, metric: str, better: Literal["higher", "lower"], value: float) -> None:
    """Ask the loop to keep the run's state after this step as the best one of its phase.

    Args:
        metric: name of the metric.
        better: direction of better values.
        value: value at this step.

    Raises:
        ConfigError: one of them is of another kind, and the record of the best step would be
            invalid.
    """
    _check_name("keep_best: metric", metric)
    if better not in ("higher", "lower"):
        raise ConfigError(f"keep_best: better is {better!r}: must be 'higher' or 'lower'")
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not number or not math.isfinite(value):
        raise ConfigError(
            f"keep_best: value of {metric} is {value!r:.60}: must be a finite number (of a tensor, "
            "float(value)); leave the step out where there is none"
        )
    ledger = _ledger.get()
    if ledger is not None:
        ledger.best = {"metric": metric, "better": better, "value": float(value)}


def end_phase(reason: str) -> None:
    """Ask the loop to end the phase after this step; the first reason of a step counts.

    Raises:
        ConfigError: the reason is no text, or empty.
    """
    _check_name("end_phase: reason", reason)
    ledger = _ledger.get()
    if ledger is not None:
        ledger.ended = ledger.ended or reason


def _check_name(what: str, text: object) -> None:
    if not isinstance(text, str) or not text:
        raise ConfigError(f"{what} is {text!r:.60}: must be a text that says it")


def merge(other: Ledger) -> None:
    """Add another ledger to the active one; no-op outside a run."""
    ledger = _ledger.get()
    if ledger is not None:
        ledger.merge(other)


def take_back() -> Callable[[], None]:
    """Return a function that removes all that is recorded from now on; no-op outside a run.

    Examples:
        >>> with recording() as ledger:
        ...     record("loss/policy", 1.0)
        ...     forget = take_back()
        ...     record("loss/policy", float("nan"))
        ...     forget()
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

    Step ``i`` of ``n`` is at ``(i + 1) / (n + 1)``. It is never exactly 0 or 1: neither the first
    step of a warm-up nor the last step of a decay is wasted.
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
    """Capture metrics in a context; with a prefix also record them in the outer ledger."""
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
def recorded() -> Iterator[Ledger]:
    """Capture metrics in a context; also record them in the outer ledger."""
    inside = Ledger(progress(), step())
    token = _ledger.set(inside)
    try:
        yield inside
    finally:
        _ledger.reset(token)
        merge(inside)


__all__ = [
    "Ledger",
    "end_phase",
    "keep_best",
    "measured",
    "merge",
    "progress",
    "record",
    "record_sample",
    "record_total",
    "recorded",
    "recording",
    "step",
    "take_back",
]
