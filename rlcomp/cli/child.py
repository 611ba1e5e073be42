"""A run in a process of its own: whatever ends it, somebody is left who says so.

The run is forked; what started it only waits. A run that calls ``os._exit``, or that the system
kills, cannot say so itself, and would take the other jobs of a sweep with it.
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

from rlcomp.cli.guard import verdict
from rlcomp.cli.stack import innermost
from rlcomp.errors import Died, Interrupted, RunFailed
from rlcomp.files.shared_status import SharedStatus, describe_place
from rlcomp.files.storage_errors import GO_ON
from rlcomp.run.signals import answer, stop_at_once

_PR_SET_PDEATHSIG = 1
# The signals that ask a run to stop.
_ASKING = (signal.SIGINT, signal.SIGTERM)


def in_child(job: Callable[[], None], watch: SharedStatus) -> None:
    """Run a job in a forked process and wait for it.

    Raises:
        Interrupted: the job was stopped on request.
        KeyboardInterrupt: it was stopped at once.
        RunFailed: it failed by an exception.
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
            if _at_once(watch):  # asked before there was a process to pass it on to
                os.kill(child, signal.SIGINT)
            _, status = os.waitpid(child, 0)
        told = watch.ended()
        if told.get("exit_code") == 0:
            return
        if told.get("exit_code") == Interrupted.exit_code:
            raise Interrupted(told["error"])
        at_its_end = watch.signals and not told and not status  # it was saying how it ended
        interrupted = told.get("type") == KeyboardInterrupt.__name__
        if watch.signals > 1 or interrupted or at_its_end:
            raise KeyboardInterrupt
        if told:
            raise RunFailed(told)
        stack.seek(0)
        raise _died(status, watch, stack.read().decode(errors="replace"))


def _be_the_child(
    job: Callable[[], None], watch: SharedStatus, stack: IO[bytes], parent: int
) -> NoReturn:
    """Run the job, say how it ended, and leave as a process leaves that came to its end."""
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
        os._exit(0)  # what counts is what was said


def _forget_the_parents_end() -> None:
    """What the parent has left for its end is not the child's: its temporary folders are in use."""
    atexit._clear()
    for finalizer in [*weakref.finalize._registry]:  # type: ignore[attr-defined]
        finalizer.atexit = False
    atexit.register(weakref.finalize._exitfunc)  # type: ignore[attr-defined]


def _outcome(job: Callable[[], None], watch: SharedStatus) -> dict[str, object]:
    try:
        if _at_once(watch):  # asked before this process could be told
            raise KeyboardInterrupt
        job()
    except BaseException as error:
        return {**verdict(error)}
    return {"exit_code": 0}


def _at_once(watch: SharedStatus) -> bool:
    """Whether the run is to stop now: asked twice, or before its first step."""
    return watch.signals > bool(watch.place())


def _die_with(parent: int) -> None:
    """Be killed when the parent dies (Linux): a run that nobody watches over is not to go on."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os.kill(os.getpid(), signal.SIGKILL)


@contextmanager
def _passing_on_signals(watch: SharedStatus) -> Iterator[list[int]]:
    """Context in which the first signal is answered, and the run sees it after its step.

    A terminal sends a signal to both processes, ``kill`` to one: the run counts its own and ours.

    Yields:
        A list for the process of the run. Until it is there signals are counted.
    """
    own, children = os.getpid(), list[int]()

    def ask(number: int, frame: FrameType | None) -> None:
        del number, frame
        if os.getpid() != own:
            return  # the run, in the moment before it has handlers of its own
        watch.signals += 1
        if watch.signals == 1 and watch.place():
            answer(watch)
        else:
            for child in children:
                os.kill(child, signal.SIGINT if watch.signals < 3 else signal.SIGKILL)

    if threading.current_thread() is not threading.main_thread():
        yield children  # signals are somebody else's
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
