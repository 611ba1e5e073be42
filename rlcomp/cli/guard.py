"""Exit codes and error messages of the command-line programs."""

from __future__ import annotations

import importlib.util
import logging
import os
import re
import resource
import select
import signal
import sys
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TextIO

from hydra.errors import HydraException
from omegaconf.errors import OmegaConfBaseException

from rlcomp.cli.printable import printable
from rlcomp.cli.stack import stack_of
from rlcomp.errors import Died, RlcompError, RlcompWarning, RunFailed, UserError, exit_code

# Errors whose message says all; of any other the lines of code count as well.
FORESEEN = (RlcompError, HydraException, OmegaConfBaseException)


def guard(app: Callable[[], None], *, alone: bool = True) -> None:
    """Run an app; whatever it ends by is one message and an exit code.

    Args:
        app: the program.
        alone: refuse to be one of several processes.
    """
    os.environ["HYDRA_FULL_ERROR"] = "1"  # Hydra then raises instead of printing and leaving with 1
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())  # the user's own parts
    warnings.showwarning = _show_warning
    logging.getLogger("bitsandbytes").setLevel(logging.ERROR)  # of kernels that nobody asked for
    try:
        if alone:
            check_alone(os.environ)
        check_packages()
        app()
        sys.stdout.flush()
    except (Exception, KeyboardInterrupt) as error:
        if isinstance(error, BrokenPipeError) and _nobody_reads():
            sys.exit(128 + signal.SIGPIPE)
        told = verdict(error)
        print(message(told), file=sys.stderr, flush=True)
        if isinstance(error, Died) and error.signal:
            _die_of(error.signal)
        sys.exit(int(str(told["exit_code"])))


def _nobody_reads() -> bool:
    """Whether what reads the output is gone (``| head``); what is left to say then goes nowhere."""
    try:
        out = sys.stdout.fileno()
    except (OSError, ValueError):
        return False  # a stream in memory
    looked = select.poll()
    looked.register(out, select.POLLOUT)
    gone = any(event & select.POLLERR for _, event in looked.poll(0))
    if gone:
        os.dup2(os.open(os.devnull, os.O_WRONLY), out)
    return gone


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Tell a warning: ours in one line, that of a library with its place."""
    own = issubclass(category, RlcompWarning)
    placed = warnings.formatwarning(message, category, filename, lineno, line)
    text = f"rlcomp: {message}" if own else placed.rstrip()
    print(printable(text), file=file or sys.stderr, flush=True)


def verdict(error: BaseException) -> Mapping[str, object]:
    """What is said of an error: ``error``, ``type``, ``exit_code``, ``traceback``, ``foreseen``.

    The traceback is without the frames of Hydra.
    """
    if isinstance(error, RunFailed):
        return error.told
    composed = isinstance(error, (HydraException, OmegaConfBaseException))
    return {
        "error": explain(error)[:8000],
        "type": type(error).__name__,
        "exit_code": UserError.exit_code if composed else exit_code(error),
        "traceback": error.stack if isinstance(error, Died) else stack_of(error)[-32000:],
        "foreseen": isinstance(error, (*FORESEEN, KeyboardInterrupt)),
    }


def message(told: Mapping[str, object]) -> str:
    """What the terminal shows of a verdict; nothing in it can steer the terminal."""
    if told["foreseen"]:
        return printable(f"rlcomp: {told['error']}")
    return printable(str(told["traceback"]).rstrip())


def explain(error: BaseException) -> str:
    """One message for an error; Hydra's and OmegaConf's get what, where and the nearest name."""
    if isinstance(error, KeyboardInterrupt):
        return "stopped at once; checkpoints written so far are whole"
    if not isinstance(error, (HydraException, OmegaConfBaseException)):
        # A mistake that only shows while a stage runs carries a note that says which.
        remedy = [error.remedy] if isinstance(error, RlcompError) and error.remedy else []
        return "\n".join([str(error), *getattr(error, "__notes__", []), *remedy])
    from rlcomp.advice.explain import explained

    return explained(error, sys.argv[1:], user_directories())


def _die_of(number: int) -> None:
    """End as the run's own process did, so that whoever started this sees the same signal."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    if number != signal.SIGKILL:
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


def user_directories() -> list[str]:
    """The config directories the command line adds (``-cd``)."""
    given = [word for text in sys.argv[1:] for word in re.split("(?<=^--config-dir)=", text)]
    return [given[i + 1] for i, text in enumerate(given[:-1]) if text in ("-cd", "--config-dir")]


def check_alone(environment: Mapping[str, str]) -> None:
    """Refuse to be one of several processes where nothing says how they share a run.

    Args:
        environment: torchrun, accelerate and deepspeed say there how many there are.

    Raises:
        UserError: there are several; says how to start one.
    """
    if re.fullmatch(r"[2-9]|[1-9]\d+", environment.get("WORLD_SIZE", "")):
        raise UserError(
            f"WORLD_SIZE is {environment['WORLD_SIZE']}: this is one of several processes, and "
            "nothing says how they share a run; add parallel=replicate or parallel=shard (rlcomp "
            "itself only), or start one process, without torchrun, accelerate or deepspeed (or "
            "unset WORLD_SIZE); several seeds at once: rlcomp -m seed=0,1 hydra/launcher=joblib"
        )


def check_packages() -> None:
    """Refuse to run when another package of the user's stands in front of ``components``.

    Raises:
        UserError: names the file and the remedy.
    """
    spec = importlib.util.find_spec("components")
    home = Path(__file__).resolve().parents[2]
    found = [Path(p).resolve() for p in (spec.submodule_search_locations or [])] if spec else []
    if home / "components" not in found[:1]:
        where = spec.origin or (found[0] if found else "nowhere") if spec else "nowhere"
        raise UserError(
            f"'components' is {where}, which shadows rlcomp's own {home / 'components'}: rename "
            "your folder (or file), or run from another directory"
        )
