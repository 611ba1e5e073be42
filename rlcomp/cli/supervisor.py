"""Supervisor: runs a job in a forked process, and reports how it ended.

The parent process only waits. A run that calls ``os._exit`` or that the system kills cannot report
its own end, and would end the other jobs of a sweep.
"""

from __future__ import annotations

import atexit
import ctypes
import faulthandler
import multiprocessing.util
import os
import signal
import sys
import tempfile
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import IO, NoReturn

from rlcomp.cli.error_handler import error_report, innermost_frame
from rlcomp.errors import Died, Interrupted, RunFailed
from rlcomp.files.shared_status import RESUME_REMEDY, SharedStatus, describe_position
from rlcomp.run.signals import print_stopping, stop_at_once

_PR_SET_PDEATHSIG = 1
# The signals that request the end of a run.
_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def run_in_child(job: Callable[[], None], status: SharedStatus) -> None:
    """Run a job in a forked process and wait for it.

    Raises:
        Interrupted: the job was stopped on request.
        KeyboardInterrupt: it was stopped at once.
        RunFailed: it failed with an exception.
        Died: a signal killed it, or it ended its own process.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    with tempfile.TemporaryFile() as stack:
        with _forward_signals(status) as children:
            parent, child = os.getpid(), os.fork()
            if not child:
                _run_as_child(job, status, stack, parent)
            children.append(child)
            if _must_stop_now(status):  # requested before the child existed
                os.kill(child, signal.SIGINT)
            _, wait_status = os.waitpid(child, 0)
        report = status.outcome()
        if report.get("exit_code") == 0:
            return
        if report.get("exit_code") == Interrupted.exit_code:
            raise Interrupted(report["error"])
        # The child had no time to report its end.
        stopped_at_end = status.signals and not report and not wait_status
        interrupted = report.get("type") == KeyboardInterrupt.__name__
        if status.signals > 1 or interrupted or stopped_at_end:
            raise KeyboardInterrupt
        if report:
            raise RunFailed(report)
        stack.seek(0)
        raise _death_error(wait_status, status, stack.read().decode(errors="replace"))


def _run_as_child(
    job: Callable[[], None], status: SharedStatus, stack: IO[bytes], parent: int
) -> NoReturn:
    """Run the job in the child, report its outcome, and end the process with its exit handlers."""
    try:
        _clear_exit_handlers()
        for number in _STOP_SIGNALS:
            signal.signal(number, stop_at_once)
        _die_with_parent(parent)
        faulthandler.enable(stack)
        outcome = _run_job(job, status)
        for number in _STOP_SIGNALS:
            signal.signal(number, signal.SIG_IGN)
        status.set_outcome(outcome)
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        multiprocessing.util._exit_function()  # type: ignore[attr-defined]
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(0)  # the parent reads the report, not the exit code


def _clear_exit_handlers() -> None:
    """Drop the inherited exit handlers, since the parent still uses its temporary folders."""
    atexit._clear()
    for finalizer in [*weakref.finalize._registry]:  # type: ignore[attr-defined]
        finalizer.atexit = False
    atexit.register(weakref.finalize._exitfunc)  # type: ignore[attr-defined]


def _run_job(job: Callable[[], None], status: SharedStatus) -> dict[str, object]:
    """Run the job; return the report of its error, or exit code 0."""
    try:
        if _must_stop_now(status):  # requested before this process had handlers
            raise KeyboardInterrupt
        job()
    except BaseException as error:
        return {**error_report(error)}
    return {"exit_code": 0}


def _must_stop_now(status: SharedStatus) -> bool:
    """Return whether the run must stop now: two requests, or one before its first step."""
    return status.signals > bool(status.position())


def _die_with_parent(parent: int) -> None:
    """Ask Linux to kill this process when its parent dies: no run continues unsupervised."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os.kill(os.getpid(), signal.SIGKILL)


@contextmanager
def _forward_signals(status: SharedStatus) -> Iterator[list[int]]:
    """Tell the run about signals: the first stops it after its step, the second at once.

    The third kills it. Before its first step, the first signal already stops the run at once.

    Ctrl-C reaches this process and the run, ``kill`` only one of them. So the run
    (:class:`rlcomp.run.signals.StopRequest`) looks at each of the two counts, never at their sum.

    Yields:
        An empty list for the process number of the run. Until it is filled, signals are counted and
        not passed on.
    """
    parent, children = os.getpid(), list[int]()

    def count_signal(number: int, frame: FrameType | None) -> None:
        del number, frame
        if os.getpid() != parent:
            return  # this is the child, before it has its own handlers
        status.signals += 1
        if status.signals == 1 and status.position():
            print_stopping(status)
        else:
            for child in children:
                os.kill(child, signal.SIGINT if status.signals < 3 else signal.SIGKILL)

    if threading.current_thread() is not threading.main_thread():
        yield children  # other code handles the signals
        return
    earlier_handlers = {number: signal.signal(number, count_signal) for number in _STOP_SIGNALS}
    try:
        yield children
    finally:
        for number, handler in earlier_handlers.items():
            signal.signal(number, handler)


def _death_error(wait_status: int, status: SharedStatus, stack: str) -> Died:
    position = describe_position(status.position())
    remedy = f"its record and its checkpoints are as they were: {RESUME_REMEDY}"
    code = os.waitstatus_to_exitcode(wait_status)
    if code >= 0:
        return Died(
            f"the run ended its process {position}, with exit status {code} without an error, as "
            f"os._exit or an exiting library does: raise an error there instead; {remedy}"
        )
    name = signal.Signals(-code).name
    cause = (
        "perhaps by the system because memory ran out: use smaller batches"
        if -code == signal.SIGKILL
        else f"where Python was{innermost_frame(stack)}: failure.json has the stack"
    )
    return Died(
        f"the run was killed by {name} {position}, {cause}; {remedy}", signal=-code, stack=stack
    )
