"""Exception hierarchy.

::

    RlcompError                       exit code 1, as for any other exception
    ├── UserError (ValueError)        a mistake in a config, a call or the data; exit code 2
    │   ├── ConfigError               a config path, its value and what to write instead
    │   │   └── ConfigErrors          all independent mistakes of one config
    │   ├── FlowError                 a stage lacks rows or state of earlier stages
    │   │   └── NoRows                a stage has no rows to pass on; a run skips the step
    │   ├── DataError                 a file is missing, empty or malformed (names file and line)
    │   ├── ShapeError                a tensor has the wrong shape, or rows the wrong padding
    │   ├── MissingExtra              an optional dependency is not installed (names the extra)
    │   └── CheckpointError           no checkpoint, or one that does not fit the run
    ├── NumericalError                a loss or gradient is not finite; exit code 3
    │   └── NonFiniteSteps            several optimiser steps in a row (holds the last one)
    ├── StorageError                  the run's record or checkpoint cannot be written; exit code 74
    ├── Temporary                     a reward function cannot answer now; its call is repeated
    ├── ProcessEnded                  code of a stage ended the process (``sys.exit``, ``os._exit``)
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
        remedy: remedy for errors whose message has none; empty if the message has one.
    """

    exit_code = 1
    remedy = ""


class RlcompWarning(UserWarning):
    """Warning about a run that continues; the command line prints only its message."""


class UserError(RlcompError, ValueError):
    """A user error: the message names config path, value and remedy."""

    exit_code = 2


class ConfigError(UserError):
    """A config path holds a value that cannot work."""


class FlowError(UserError):
    """A stage does not get the rows or the state that it needs from earlier stages."""


class NoRows(FlowError):
    """A stage has no rows to pass on; the run skips the rest of the step."""


class DataError(UserError):
    """A data file is missing, empty or malformed."""


class ShapeError(UserError):
    """The shape or dtype of a tensor, the padding of rows, or the keys of batches are wrong."""


class CheckpointError(UserError):
    """There is no checkpoint, or it does not belong to this run."""


class MissingExtra(UserError):
    """An optional dependency is not installed."""


class NumericalError(RlcompError):
    """A loss or a gradient is not finite."""

    exit_code = 3
    remedy = (
        "look in metrics.jsonl for a metric that grew before this step; restart, or resume from an "
        "earlier checkpoint (resume=PATH), with a smaller learning rate or gradient clip"
    )


class StorageError(RlcompError):
    """The record or a checkpoint of a run cannot be written."""

    exit_code = 74  # EX_IOERR


class Temporary(RlcompError):
    """A reward function cannot compute its reward now; the call is repeated after a delay.

    ConnectionError and TimeoutError have the same effect.
    """


class ProcessEnded(RlcompError):
    """Code that a stage calls ended the process."""


class Died(ProcessEnded):
    """The process of a run ended without a report.

    Args:
        message: message of the error.
        signal: number of the signal that killed the process; 0 if the process ended itself.
        stack: Python's stack at the end of the process; empty if unknown.
    """

    def __init__(self, message: str, *, signal: int = 0, stack: str = "") -> None:
        super().__init__(message)
        self.signal = signal
        self.stack = stack
        self.exit_code = 128 + signal if signal else 1


class RunFailed(RlcompError):
    """A run in a forked process failed; ``report`` is the dict of ``cli.error_handler``."""

    def __init__(self, report: Mapping[str, object]) -> None:
        super().__init__(report)
        self.report = report
        self.exit_code = int(str(report["exit_code"]))

    def __str__(self) -> str:
        return str(self.report["error"])


class NonFiniteSteps(NumericalError):
    """Several consecutive optimiser steps were not finite.

    Args:
        message: message of the error.
        learner: the learner of these steps, in its state before the last step.
        batch: the rows of the last step.
    """

    def __init__(self, message: str, learner: object, batch: Any) -> None:  # noqa: ANN401
        super().__init__(message)
        self.learner = learner
        self.batch = batch


class ContractError(RlcompError, AssertionError):
    """A component breaks the component contract (:mod:`rlcomp.testing`)."""


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


# Largest number of known names in a message.
_MAX_NAMES = 5


def nearest(name: str, known: Iterable[str]) -> str:
    """Return the end of a message about an unknown name: a suggestion, and known names.

    Args:
        name: the unknown name.
        known: all known names. Of more than five, the five most similar ones are listed.

    Examples:
        >>> nearest("polcy", ["policy", "task"])
        "; did you mean 'policy'? (known: policy, task)"
        >>> nearest("gpro", ["gspo", "grpo"])
        "; did you mean 'grpo'? (known: grpo, gspo)"
        >>> nearest("x", "abcdefgh")
        ' (known: a, b, c, d, e, …)'
    """
    options = sorted({str(option) for option in known})
    plain = name.lower().replace("-", "_")
    similar = [plain] if plain in options else difflib.get_close_matches(name, options, n=3)
    # An option with the same letters in another order is the likeliest one.
    anagrams = [option for option in similar if sorted(option) == sorted(name)]
    similar = anagrams or similar
    suggestion = f"; did you mean '{similar[0]}'?" if similar else ""
    if len(options) > _MAX_NAMES:
        matcher = difflib.SequenceMatcher(b=name)
        similarity = {option: _similarity(matcher, option) for option in options}
        by_similarity = sorted(options, key=similarity.__getitem__, reverse=True)
        options = [*by_similarity[:_MAX_NAMES], "…"]
    return f"{suggestion} (known: {', '.join(options) or 'none'})"


def as_dotted(path: str) -> str | None:
    """Return a file path or a path with a colon as a dotted path; None for any other text.

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
    """Return an error's type and message in one line, cut to 300 characters."""
    return " ".join([f"{type(error).__name__}:", *str(error).split()]).rstrip(":")[:300]


def _similarity(matcher: difflib.SequenceMatcher[str], option: str) -> float:
    matcher.set_seq1(option)
    return matcher.ratio()


def add_note(error: BaseException, note: str) -> None:
    """Append a note to an exception (PEP 678); before Python 3.11, to its message."""
    if sys.version_info >= (3, 11):
        error.add_note(note)
    else:
        error.args = ("\n".join([*map(str, error.args[:1]), note]), *error.args[1:])


@contextlib.contextmanager
def refuse_exit(subject: str, error_class: type[RlcompError] = UserError) -> Iterator[None]:
    """Turn a ``sys.exit`` of the context into an error that names its file and line.

    Args:
        subject: name of the code of the context, for the message.
        error_class: class of the error.
    """
    try:
        yield
    except SystemExit as error:
        frames = traceback.extract_tb(error.__traceback__)
        # exit() is defined in Python's site module, and W&B replaces sys.exit by its own function.
        wrappers = ("_sitebuiltins", "exit_hooks")
        last = [frame for frame in frames if not any(w in frame.filename for w in wrappers)][-1]
        replacement = error_class(
            f"{subject} ends the process (SystemExit: {error.code!r}, {last.filename}, line "
            f"{last.lineno}): raise an error there instead"
        )
        for note in getattr(error, "__notes__", []):
            add_note(replacement, note)
        raise replacement from error


def require(module: str, extra: str) -> ModuleType:
    """Import and return an optional dependency.

    Args:
        module: dotted name of the module.
        extra: extra of rlcomp that installs the module, for the message.

    Raises:
        MissingExtra: the module itself is not installed.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not module.startswith(error.name):
            raise
        raise MissingExtra(f"'{module}' is not installed: pip install 'rlcomp[{extra}]'") from error
