"""Session of a run's trackers: contexts that start and finish them."""

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
    trackers: Sequence[Tracker], phases: Mapping[str, int], done: int, status: SharedStatus
) -> Iterator[None]:
    """Start trackers, and finish every started one when the context is left.

    At the end the record is compared with the lines that were written. A tracker that cannot finish
    does not hide the error that the run ended by.

    Args:
        trackers: of the run.
        phases: their steps.
        done: number of steps that are done already.
        status: status of the run.

    Raises:
        StorageError: the record cannot be written, or was changed while the run went on.
    """
    open_trackers: list[Tracker] = []
    try:
        with storage_errors("the record", status):
            for tracker in trackers:
                open_trackers.append(tracker)
                tracker.start(phases, done)
        yield
        for tracker in open_trackers:
            if isinstance(tracker, JsonLines):
                tracker.check()
    except BaseException as error:
        for tracker in open_trackers:
            try:
                tracker.finish(error)
            except Exception as late:
                add_note(error, f"tracker {tracker.name}: {type(late).__name__}: {late}")
        raise
    for tracker in open_trackers:
        tracker.finish(None)


Close = Callable[[BaseException], None]


@runtime_checkable
class Outlives(Protocol):
    """Class of trackers that the supervisor can close for a run that has died."""

    def outlive(self, settings: Mapping[str, Any]) -> AbstractContextManager[Close]:
        """Yield the function that closes the tracker of a dead run.

        Args:
            settings: of the tracker, as its constructor takes them.
        """


@contextmanager
def closing_tracker(
    kind: object, settings: Mapping[str, Any], status: SharedStatus
) -> Iterator[None]:
    """Run a process of a run within the context; close its tracker if it dies.

    Args:
        kind: class of the tracker; one without ``outlive`` is left alone.
        settings: settings of the tracker.
        status: status of the run.
    """
    if not isinstance(kind, Outlives):
        yield
        return
    with kind.outlive(settings) as close:
        try:
            yield
        except BaseException as error:
            if not status.ended():  # a run that has reported its end has closed its trackers
                _close(close, error)
            raise


def _close(close: Close, error: BaseException) -> None:
    try:
        close(error)
    except Exception as late:
        add_note(error, f"the tracker was not closed: {type(late).__name__}: {late}")
