"""Trackers of a run, opened and closed: they are told how it ended."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol, runtime_checkable

from rlcomp.errors import add_note
from rlcomp.files.shared_status import SharedStatus
from rlcomp.files.storage_errors import storage_errors
from rlcomp.trackers.tracker import JsonLines, Tracker


@contextmanager
def tracker_session(
    trackers: Sequence[Tracker], phases: Mapping[str, int], done: int, watch: SharedStatus
) -> Iterator[None]:
    """Context in which trackers are open; every one that was started is finished.

    At the end the record is compared with what was written into it. A tracker that cannot finish
    does not hide the error that the run ended by.

    Args:
        trackers: of the run.
        phases: their steps.
        done: how many steps are done already.
        watch: of the run.

    Raises:
        StorageError: the record cannot be written, or was changed while the run went on.
    """
    started: list[Tracker] = []
    try:
        with storage_errors("the record", watch):
            for tracker in trackers:
                started.append(tracker)
                tracker.start(phases, done)
        yield
        for tracker in started:
            if isinstance(tracker, JsonLines):
                tracker.check()
    except BaseException as error:
        for tracker in started:
            try:
                tracker.finish(error)
            except Exception as late:
                add_note(error, f"tracker {tracker.name}: {type(late).__name__}: {late}")
        raise
    for tracker in started:
        tracker.finish(None)


Close = Callable[[BaseException], None]


@runtime_checkable
class Outlives(Protocol):
    """Class of trackers that the waiting process can close for a run that has died."""

    def outlive(self, settings: Mapping[str, Any]) -> AbstractContextManager[Close]:
        """Context around the process of a run; gives the function that closes a dead run's tracker.

        Args:
            settings: of the tracker, as its constructor takes them.
        """


@contextmanager
def closing_tracker(
    kind: object, settings: Mapping[str, Any], watch: SharedStatus
) -> Iterator[None]:
    """Context around the process of a run; closes the run's tracker if the run dies.

    Args:
        kind: class of the tracker; one without ``outlive`` is left alone.
        settings: of the tracker.
        watch: of the run.
    """
    if not isinstance(kind, Outlives):
        yield
        return
    with kind.outlive(settings) as close:
        try:
            yield
        except BaseException as error:
            if not watch.ended():  # a run that has reported its end has closed its trackers
                _close(close, error)
            raise


def _close(close: Close, error: BaseException) -> None:
    try:
        close(error)
    except Exception as late:
        add_note(error, f"the tracker was not closed: {type(late).__name__}: {late}")
