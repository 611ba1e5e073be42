"""Errors of a command, and the lines of a traceback that help."""

from __future__ import annotations

import importlib.util
import logging
import os
import re
import resource
import select
import signal
import sys
import traceback
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TextIO

import hydra
from hydra.errors import HydraException
from omegaconf.errors import OmegaConfBaseException

from rlcomp.cli.escape import printable
from rlcomp.errors import Died, RlcompError, RlcompWarning, RunFailed, UserError, exit_code

_RLCOMP = Path(__file__).parents[1]
_HYDRA = str(Path(hydra.__file__).parent)
# Files whose frames a traceback leaves out: a note names the stage and the step instead.
_HIDDEN_FILES = (
    str(_RLCOMP / "cli"),
    str(_RLCOMP / "run"),
    str(_RLCOMP / "component.py"),
)
_MODULE_CALL = str(Path("torch", "nn", "modules", "module.py"))


def stack_of(error: BaseException) -> str:
    """Return the traceback of an error and its causes without frames of Hydra and of the loop.

    The frame that raised the error stays, also if it is one of the loop.
    """
    chain = traceback.TracebackException.from_exception(error)
    pending = [chain]
    while pending:
        current = pending.pop()
        frames_outside_hydra = [
            frame for frame in current.stack if not frame.filename.startswith(_HYDRA)
        ]
        frames = [frame for frame in frames_outside_hydra[:-1] if not _is_hidden(frame.filename)]
        current.stack = traceback.StackSummary.from_list([*frames, *frames_outside_hydra[-1:]])
        pending += [
            cause for cause in (current.__cause__, current.__context__) if cause is not None
        ]
    return "".join(chain.format())


def _is_hidden(file: str) -> bool:
    return file.startswith(_HIDDEN_FILES) or file.endswith(_MODULE_CALL)


def innermost_frame(dump: str) -> str:
    r"""Return the innermost Python frame in faulthandler's dump of a process that died.

    Examples:
        >>> innermost_frame('Current thread 0x1 (first):\n  File "a.py", line 3 in f')
        ' (a.py, line 3, in f)'
    """
    match = re.search(r'Current thread.*\n  File "(.+)", line (\d+) in (.+)', dump)
    return " ({}, line {}, in {})".format(*match.groups()) if match else ""


# Errors with a complete message; for others the lines of code are shown as well.
EXPECTED_ERRORS = (RlcompError, HydraException, OmegaConfBaseException)


def run_program(app: Callable[[], None], *, single_process: bool = True) -> None:
    """Run an app; turn an error in it into one message and an exit code.

    A run that a signal killed ends this process by the same signal. Sets up the process first:
    environment, import path and warnings.

    Args:
        app: the program.
        single_process: refuse to be one of several processes.
    """
    os.environ["HYDRA_FULL_ERROR"] = "1"  # Hydra then raises instead of printing and leaving with 1
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())  # the user's own parts
    warnings.showwarning = _show_warning
    logging.getLogger("bitsandbytes").setLevel(logging.ERROR)  # on unused kernels
    try:
        if single_process:
            check_single_process(os.environ)
        check_packages()
        app()
        sys.stdout.flush()
    except (Exception, KeyboardInterrupt) as error:
        if isinstance(error, BrokenPipeError) and _output_is_closed():
            sys.exit(128 + signal.SIGPIPE)
        report = error_report(error)
        print(message(report), file=sys.stderr, flush=True)
        if isinstance(error, Died) and error.signal:
            _raise_signal(error.signal)
        sys.exit(int(str(report["exit_code"])))


def _output_is_closed() -> bool:
    """Return whether the reader of the output is gone (``| head``); then discard further output."""
    try:
        out = sys.stdout.fileno()
    except (OSError, ValueError):
        return False  # a stream in memory
    poller = select.poll()
    poller.register(out, select.POLLOUT)
    closed = any(event & select.POLLERR for _, event in poller.poll(0))
    if closed:
        os.dup2(os.open(os.devnull, os.O_WRONLY), out)
    return closed


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Print a warning: ours in one line, a library's with its place."""
    is_ours = issubclass(category, RlcompWarning)
    formatted = warnings.formatwarning(message, category, filename, lineno, line)
    text = f"rlcomp: {message}" if is_ours else formatted.rstrip()
    print(printable(text), file=file or sys.stderr, flush=True)


def error_report(error: BaseException) -> Mapping[str, object]:
    """Return ``error``, ``type``, ``exit_code``, ``traceback`` and ``foreseen`` of an exception.

    The traceback is the end of :func:`stack_of`; for ``Died``, the stack of the dead process. The
    report of a forked run (``RunFailed``) is returned as it is.
    """
    if isinstance(error, RunFailed):
        return error.report
    is_composition_error = isinstance(error, (HydraException, OmegaConfBaseException))
    return {
        "error": explain(error)[:8000],
        "type": type(error).__name__,
        "exit_code": UserError.exit_code if is_composition_error else exit_code(error),
        "traceback": error.stack if isinstance(error, Died) else stack_of(error)[-32000:],
        "foreseen": isinstance(error, (*EXPECTED_ERRORS, KeyboardInterrupt)),
    }


def message(report: Mapping[str, object]) -> str:
    """Return a report as terminal text, without control characters."""
    if report["foreseen"]:
        return printable(f"rlcomp: {report['error']}")
    return printable(str(report["traceback"]).rstrip())


def explain(error: BaseException) -> str:
    """Return one message for an error; Hydra's and OmegaConf's get place and nearest name."""
    if isinstance(error, KeyboardInterrupt):
        return "stopped at once; checkpoints written so far are whole"
    if not isinstance(error, (HydraException, OmegaConfBaseException)):
        # For a mistake that shows only while a stage runs, a note names the stage.
        remedy = [error.remedy] if isinstance(error, RlcompError) and error.remedy else []
        return "\n".join([str(error), *getattr(error, "__notes__", []), *remedy])
    from rlcomp.advice.explain import explain_overrides

    return explain_overrides(error, sys.argv[1:], user_directories())


def _raise_signal(number: int) -> None:
    """End by the signal that ended the run's own process, so that the caller sees it."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    if number != signal.SIGKILL:
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


def user_directories() -> list[str]:
    """Return the config directories of the command line (``-cd``)."""
    words = [word for text in sys.argv[1:] for word in re.split("(?<=^--config-dir)=", text)]
    return [words[i + 1] for i, text in enumerate(words[:-1]) if text in ("-cd", "--config-dir")]


def check_single_process(environment: Mapping[str, str]) -> None:
    """Refuse to be one of several processes without a setting that says how they share a run.

    Args:
        environment: torchrun, accelerate and deepspeed set the number of processes there.

    Raises:
        UserError: there are several processes; the message names the remedy.
    """
    if re.fullmatch(r"[2-9]|[1-9]\d+", environment.get("WORLD_SIZE", "")):
        raise UserError(
            f"WORLD_SIZE is {environment['WORLD_SIZE']}: this is one of several processes, and "
            "nothing says how they share a run; add parallel=replicate or parallel=shard (rlcomp "
            "itself only), or start one process, without torchrun, accelerate or deepspeed (or "
            "unset WORLD_SIZE); several seeds at once: rlcomp -m seed=0,1 hydra/launcher=joblib"
        )


def check_packages() -> None:
    """Check that no other package of the user is imported as ``components``.

    Raises:
        UserError: there is such a package; the message names the file and the remedy.
    """
    spec = importlib.util.find_spec("components")
    root = Path(__file__).resolve().parents[2]
    folders = [Path(p).resolve() for p in (spec.submodule_search_locations or [])] if spec else []
    if root / "components" not in folders[:1]:
        where = spec.origin or (folders[0] if folders else "nowhere") if spec else "nowhere"
        raise UserError(
            f"'components' is {where}, which shadows rlcomp's own {root / 'components'}: rename "
            "your folder (or file), or run from another directory"
        )
