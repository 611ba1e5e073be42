"""Supervisor: runs a job in a forked process, and reports how it ended.

The run is forked; the parent process only waits. A run that calls ``os._exit``, or that the system
kills, cannot report this itself, and would take the other jobs of a sweep with it.
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

from rlcomp.cli.error_handler import innermost, verdict
from rlcomp.errors import Died, Interrupted, RunFailed
from rlcomp.files.shared_status import SharedStatus, describe_place
from rlcomp.files.storage_errors import GO_ON
from rlcomp.run.signals import answer, stop_at_once

_PR_SET_PDEATHSIG = 1
# The signals that request the end of a run.
_ASKING = (signal.SIGINT, signal.SIGTERM)


def in_child(job: Callable[[], None], watch: SharedStatus) -> None:
    """Run a job in a forked process and wait for it.

    Raises:
        Interrupted: the job was stopped on request.
        KeyboardInterrupt: it was stopped at once.
        RunFailed: it failed with an exception.
        Died: it ended in any other way: killed, or by ending its process.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    with tempfile.TemporaryFile() as stack:
        with _passing_on_signals(watch) as children:
            parent, child = os.getpid(), os.fork()
            if not child:
                _be_the_child(job, watch, stack, parent)
            children.append(child)
            if _at_once(watch):  # requested before the child existed
                os.kill(child, signal.SIGINT)
            _, status = os.waitpid(child, 0)
        report = watch.ended()
        if report.get("exit_code") == 0:
            return
        if report.get("exit_code") == Interrupted.exit_code:
            raise Interrupted(report["error"])
        at_its_end = watch.signals and not report and not status  # it was about to report its end
        interrupted = report.get("type") == KeyboardInterrupt.__name__
        if watch.signals > 1 or interrupted or at_its_end:
            raise KeyboardInterrupt
        if report:
            raise RunFailed(report)
        stack.seek(0)
        raise _died(status, watch, stack.read().decode(errors="replace"))


def _be_the_child(
    job: Callable[[], None], watch: SharedStatus, stack: IO[bytes], parent: int
) -> NoReturn:
    """Run the job, report how it ended, and leave as a process leaves at its end."""
    try:
        _forget_the_parents_end()
        for number in _ASKING:
            signal.signal(number, stop_at_once)
        _die_with(parent)
        faulthandler.enable(stack)
        outcome = _outcome(job, watch)
        for number in _ASKING:
            signal.signal(number, signal.SIG_IGN)
        watch.end(outcome)
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        multiprocessing.util._exit_function()  # type: ignore[attr-defined]
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(0)  # the exit code does not matter: the report does


def _forget_the_parents_end() -> None:
    """Drop the parent's exit handlers: the parent still uses its temporary folders."""
    atexit._clear()
    for finalizer in [*weakref.finalize._registry]:  # type: ignore[attr-defined]
        finalizer.atexit = False
    atexit.register(weakref.finalize._exitfunc)  # type: ignore[attr-defined]


def _outcome(job: Callable[[], None], watch: SharedStatus) -> dict[str, object]:
    try:
        if _at_once(watch):  # requested before this process had handlers
            raise KeyboardInterrupt
        job()
    except BaseException as error:
        return {**verdict(error)}
    return {"exit_code": 0}


def _at_once(watch: SharedStatus) -> bool:
    """Return whether the run must stop now: two requests, or one before its first step."""
    return watch.signals > bool(watch.place())


def _die_with(parent: int) -> None:
    """Have this process killed when its parent dies (Linux): an unsupervised run must not go on."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os.kill(os.getpid(), signal.SIGKILL)


@contextmanager
def _passing_on_signals(watch: SharedStatus) -> Iterator[list[int]]:
    """Pass signals on to the run: the first is answered, and the run sees it after its step.

    A terminal sends a signal to both processes, ``kill`` to one: the run adds both counts.

    Yields:
        A list for the process of the run. Signals are counted until it is there.
    """
    own, children = os.getpid(), list[int]()

    def ask(number: int, frame: FrameType | None) -> None:
        del number, frame
        if os.getpid() != own:
            return  # the run, before it has handlers of its own
        watch.signals += 1
        if watch.signals == 1 and watch.place():
            answer(watch)
        else:
            for child in children:
                os.kill(child, signal.SIGINT if watch.signals < 3 else signal.SIGKILL)

    if threading.current_thread() is not threading.main_thread():
        yield children  # other code handles the signals
        return
    before = {number: signal.signal(number, ask) for number in _ASKING}
    try:
        yield children
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _died(status: int, watch: SharedStatus, stack: str) -> Died:
    place = describe_place(watch.place())
    again = f"its record and its checkpoints are as they were: {GO_ON}"
    code = os.waitstatus_to_exitcode(status)
    if code >= 0:
        return Died(
            f"the run ended its process {place}, with exit status {code} and without a word, as "
            f"os._exit does, or a library that exits: raise an error there instead; {again}"
        )
    name = signal.Signals(-code).name
    cause = (
        "perhaps by the system for want of memory: smaller batches need less"
        if -code == signal.SIGKILL
        else f"where Python was{innermost(stack)}: failure.json has the stack"
    )
    return Died(
        f"the run was killed by {name} {place}, {cause}; {again}", signal=-code, stack=stack
    )
