"""Exception hierarchy.

::

    RlcompError                       exit code 1, as for any other exception
    ├── UserError (ValueError)        a mistake in a config, a call or the data; exit code 2
    │   ├── ConfigError               a config path, its value and what to write instead
    │   ├── FlowError                 a stage reads a key that no earlier stage writes
    │   │   └── NoRows                a stage has no rows to pass on; a run skips the step
    │   ├── DataError                 a file is missing, empty or malformed (names file and line)
    │   ├── ShapeError                the shapes of two tensors do not match
    │   ├── MissingExtra              an optional dependency is not installed (names the extra)
    │   └── CheckpointError           no checkpoint, or one that does not fit the run
    ├── NumericalError                a loss or gradient is not finite; exit code 3
    │   └── NonFiniteSteps            several optimiser steps in a row (holds the last one)
    ├── StorageError                  the run's record or checkpoint cannot be written; exit code 74
    ├── Temporary                     raised by a custom reward: the call is repeated
    ├── ProcessEnded                  code of a stage ends the process (``sys.exit``, ``os._exit``)
    │   └── Died                      the process of a run died, for example by a signal
    ├── RunFailed                     a run in a forked process failed and reported the error
    ├── ContractError                 a component breaks the component contract (``rlcomp.testing``)
    └── Interrupted                   stopped on request, resumable; exit code 75
"""

from __future__ import annotations

import contextlib
import difflib
import importlib
import re
import sys
import traceback
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any


class RlcompError(Exception):
    """Base class of all errors of this project.

    Attributes:
        exit_code: exit code of the command line.
        remedy: what to do, if the message of the error does not say it.
    """

    exit_code = 1
    remedy = ""


class RlcompWarning(UserWarning):
    """Warning about a run that continues; the command line prints it without the line of code."""


class UserError(RlcompError, ValueError):
    """A user error: the message names config path, value and remedy."""

    exit_code = 2


class ConfigError(UserError):
    """A config path holds a value that cannot work."""


class FlowError(UserError):
    """The stages of a phase do not match."""


class NoRows(FlowError):
    """A stage has no rows to pass on; the run skips the rest of the step."""


class DataError(UserError):
    """A data file is missing, empty or malformed."""


class ShapeError(UserError):
    """The shapes of two tensors do not match."""


class CheckpointError(UserError):
    """There is nothing to resume from, or it does not belong to this run."""


class MissingExtra(UserError):
    """An optional dependency is not installed."""


class NumericalError(RlcompError):
    """A loss or a gradient is not finite."""

    exit_code = 3
    remedy = (
        "look in metrics.jsonl for what grew before this step; a smaller learning rate or gradient "
        "clip may help, from an earlier checkpoint on (resume=PATH) or from the start"
    )


class StorageError(RlcompError):
    """The record or a checkpoint of a run cannot be written."""

    exit_code = 74  # EX_IOERR


class Temporary(RlcompError):
    """A reward cannot be computed now but may be later; it is called again after a while.

    Custom reward functions raise or subclass it; ConnectionError and TimeoutError count as
    temporary too.
    """


class ProcessEnded(RlcompError):
    """Code called by a stage ends the process."""


class Died(ProcessEnded):
    """The process of a run ended without a report.

    Args:
        told: the message.
        signal: the signal that killed it; 0 if it ended itself.
        stack: Python's stack at that time, if known.
    """

    def __init__(self, told: str, *, signal: int = 0, stack: str = "") -> None:
        super().__init__(told)
        self.signal = signal
        self.stack = stack
        self.exit_code = 128 + signal if signal else 1


class RunFailed(RlcompError):
    """A run in a forked process failed.

    Args:
        told: its report of the failure (:func:`rlcomp.cli.error_handler.error_report`).
    """

    def __init__(self, told: Mapping[str, object]) -> None:
        super().__init__(told)
        self.told = told
        self.exit_code = int(str(told["exit_code"]))

    def __str__(self) -> str:
        return str(self.told["error"])


class NonFiniteSteps(NumericalError):
    """Several consecutive optimiser steps were not finite.

    Args:
        message: the description of the problem.
        learner: the learner of these steps; its state is that before the last of them.
        batch: the rows of the last step.
    """

    def __init__(self, message: str, learner: object, batch: Any) -> None:  # noqa: ANN401
        super().__init__(message)
        self.learner = learner
        self.batch = batch


class ContractError(RlcompError, AssertionError):
    """A component breaks the contract that every component keeps."""


class Interrupted(RlcompError):
    """The run was stopped on request and can be resumed."""

    exit_code = 75  # EX_TEMPFAIL


class ConfigErrors(ConfigError):
    """All independent mistakes of one config, reported at once."""

    def __init__(self, messages: Sequence[str]) -> None:
        self.messages = list(dict.fromkeys(messages))
        super().__init__("\n".join(self.messages))


def exit_code(error: BaseException | None) -> int:
    """Return the exit code of the command line for the error that ended a run; 0 for None.

    Examples:
        >>> exit_code(None), exit_code(ZeroDivisionError()), exit_code(Interrupted())
        (0, 1, 75)
    """
    if isinstance(error, KeyboardInterrupt):
        return 130
    if isinstance(error, RlcompError):
        return error.exit_code
    return 0 if error is None else 1


# Largest number of names in a message.
_SHOWN = 5


def nearest(name: str, known: Iterable[str]) -> str:
    """Return the "did you mean" part of an "unknown name" message; at most the five nearest names.

    Examples:
        >>> nearest("polcy", ["policy", "task"])
        "; did you mean 'policy'? (known: policy, task)"
        >>> nearest("gpro", ["gspo", "grpo"])
        "; did you mean 'grpo'? (known: grpo, gspo)"
        >>> nearest("GRPO", ["gspo", "grpo"])
        "; did you mean 'grpo'? (known: grpo, gspo)"
        >>> nearest("x", "abcdefgh")
        ' (known: a, b, c, d, e, …)'
    """
    options = sorted({str(option) for option in known})
    plain = name.lower().replace("-", "_")
    close = [plain] if plain in options else difflib.get_close_matches(name, options, n=3)
    swapped = [option for option in close if sorted(option) == sorted(name)]
    close = swapped or close  # swapped letters count before other differences
    guess = f"; did you mean '{close[0]}'?" if close else ""
    if len(options) > _SHOWN:
        alike = difflib.SequenceMatcher(b=name)
        alike_to = {option: _ratio(alike, option) for option in options}
        options = [*sorted(options, key=alike_to.__getitem__, reverse=True)[:_SHOWN], "…"]
    return f"{guess} (known: {', '.join(options) or 'none'})"


def as_dotted(path: str) -> str | None:
    """Return the dotted path meant by a file path or by a colon; None if it is neither of these.

    Examples:
        >>> as_dotted("./mine/judge.py:correct"), as_dotted("judge:correct")
        ('mine.judge.correct', 'judge.correct')
        >>> as_dotted("/home/me/judge.py:correct")
        'judge.correct (with PYTHONPATH=/home/me)'
        >>> as_dotted("judge.correct")
    """
    match = re.fullmatch(r"(?:\./)?(/?)((?:[\w.-]+/)*)(\w+)(?:\.py)?[:.]([A-Za-z_]\w*)", path)
    if match is None or not (match[2] or match[1] or ".py" in path or ":" in path):
        return None
    if match[1]:
        return f"{match[3]}.{match[4]} (with PYTHONPATH=/{match[2].rstrip('/')})"
    return f"{match[2].replace('/', '.')}{match[3]}.{match[4]}"


def in_one_line(error: BaseException) -> str:
    """Write an error in one line, since the messages of other packages may have several."""
    return " ".join([f"{type(error).__name__}:", *str(error).split()]).rstrip(":")[:300]


def _ratio(alike: difflib.SequenceMatcher[str], option: str) -> float:
    alike.set_seq1(option)
    return alike.ratio()


def add_note(error: BaseException, note: str) -> None:
    """Append a note to an exception (PEP 678)."""
    if sys.version_info >= (3, 11):
        error.add_note(note)
    else:
        error.args = ("\n".join([*map(str, error.args[:1]), note]), *error.args[1:])


@contextlib.contextmanager
def exit_refused(what: str, kind: type[RlcompError] = UserError) -> Iterator[None]:
    """Turn an end of the process (``sys.exit``) inside the context into an error of its author.

    Args:
        what: name of the code inside, for the message.
        kind: class of the error.

    Raises:
        RlcompError: the code ended the process. The error is of class ``kind``; it names file and
            line.
    """
    try:
        yield
    except SystemExit as error:
        frames = traceback.extract_tb(error.__traceback__)
        # exit() is a function of Python's site module, and W&B replaces sys.exit.
        hooks = ("_sitebuiltins", "exit_hooks")
        last = [frame for frame in frames if not any(h in frame.filename for h in hooks)][-1]
        replacement = kind(
            f"{what} ends the process (SystemExit: {error.code!r}, {last.filename}, line "
            f"{last.lineno}): raise an error there instead"
        )
        for note in getattr(error, "__notes__", []):
            add_note(replacement, note)
        raise replacement from error


def require(module: str, extra: str) -> ModuleType:
    """Import an optional dependency; name its extra if it is missing.

    Raises:
        MissingExtra: the module is not installed.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not module.startswith(error.name):
            raise
        raise MissingExtra(f"'{module}' is not installed: pip install 'rlcomp[{extra}]'") from error
