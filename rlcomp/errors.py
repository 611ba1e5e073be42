"""Exception hierarchy.

::

    RlcompError                       exit code 1, as for any other exception
    ├── UserError (ValueError)        a mistake in a config, a call or the data; exit code 2
    │   ├── ConfigError               a config path, its value and what to write instead
    │   ├── FlowError                 a stage reads a key that nobody wrote, or in the wrong order
    │   │   └── NoRows                a stage has no rows to hand on; a run skips the step
    │   ├── DataError                 a file is missing, empty or malformed (names file and line)
    │   ├── ShapeError                two tensors do not fit together
    │   ├── MissingExtra              an optional dependency is not installed (names the extra)
    │   └── CheckpointError           nothing to resume from, or the checkpoint does not fit the run
    ├── NumericalError                a loss or gradient is not finite; exit code 3
    │   └── NonFiniteSteps            several optimiser steps in a row were not (holds the last one)
    ├── StorageError                  the run's record or checkpoint cannot be written; exit code 74
    ├── Temporary                     a reward of one's own raises it: the call is tried again
    ├── ProcessEnded                  code of a stage ends the process (``sys.exit``, ``os._exit``)
    │   └── Died                      the process of a run died, by a signal perhaps
    ├── RunFailed                     a run in a process of its own failed; it said how
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
        exit_code: that of the command line.
        remedy: what to do, where the message of such an error does not say it.
    """

    exit_code = 1
    remedy = ""


class RlcompWarning(UserWarning):
    """What a run goes on in spite of: the command line tells it without the line of code."""


class UserError(RlcompError, ValueError):
    """A user error: the message names config path, value and remedy."""

    exit_code = 2


class ConfigError(UserError):
    """A config path holds a value that cannot work."""


class FlowError(UserError):
    """The stages of a phase do not fit together."""


class NoRows(FlowError):
    """A stage has no rows to hand on; the run skips the rest of the step."""


class DataError(UserError):
    """A data file is missing, empty or malformed."""


class ShapeError(UserError):
    """Two tensors do not fit together."""


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
    """A reward could not be computed now, but may be later: it is called again after a while.

    For functions of one's own, to raise or to derive from; ConnectionError and TimeoutError count
    as temporary too.
    """


class ProcessEnded(RlcompError):
    """Code that a stage called ends the process."""


class Died(ProcessEnded):
    """The process of a run ended without saying how.

    Args:
        told: the message.
        signal: that killed it; 0 if it ended itself.
        stack: what Python was at then, as far as it is known.
    """

    def __init__(self, told: str, *, signal: int = 0, stack: str = "") -> None:
        super().__init__(told)
        self.signal = signal
        self.stack = stack
        self.exit_code = 128 + signal if signal else 1


class RunFailed(RlcompError):
    """A run in a process of its own failed.

    Args:
        told: what it said of its end (:func:`rlcomp.cli.guard.verdict`).
    """

    def __init__(self, told: Mapping[str, object]) -> None:
        super().__init__(told)
        self.told = told
        self.exit_code = int(str(told["exit_code"]))

    def __str__(self) -> str:
        return str(self.told["error"])


class NonFiniteSteps(NumericalError):
    """Several optimiser steps in a row were not finite.

    Args:
        message: what is wrong.
        learner: whose steps they were; it is as it was before the last of them.
        batch: the rows of that step.
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
    """The exit code of the command line for the error a run ended by; 0 for none.

    Examples:
        >>> exit_code(None), exit_code(ZeroDivisionError()), exit_code(Interrupted())
        (0, 1, 75)
    """
    if isinstance(error, KeyboardInterrupt):
        return 130
    if isinstance(error, RlcompError):
        return error.exit_code
    return 0 if error is None else 1


# Names in a message.
_SHOWN = 5


def nearest(name: str, known: Iterable[str]) -> str:
    """The "did you mean" part of an "unknown name" message; of many names the five most alike.

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
    close = swapped or close  # letters in another order before other letters
    guess = f"; did you mean '{close[0]}'?" if close else ""
    if len(options) > _SHOWN:
        alike = difflib.SequenceMatcher(b=name)
        alike_to = {option: _ratio(alike, option) for option in options}
        options = [*sorted(options, key=alike_to.__getitem__, reverse=True)[:_SHOWN], "…"]
    return f"{guess} (known: {', '.join(options) or 'none'})"


def as_dotted(path: str) -> str | None:
    """The dotted path that is meant by a file or by a colon; None: it is none of these.

    Examples:
        >>> as_dotted("./mine/judge.py:correct"), as_dotted("judge:correct")
        ('mine.judge.correct', 'judge.correct')
        >>> as_dotted("/home/me/judge.py:correct")
        'judge.correct (with PYTHONPATH=/home/me)'
        >>> as_dotted("judge.correct")
    """
    found = re.fullmatch(r"(?:\./)?(/?)((?:[\w.-]+/)*)(\w+)(?:\.py)?[:.]([A-Za-z_]\w*)", path)
    if found is None or not (found[2] or found[1] or ".py" in path or ":" in path):
        return None
    if found[1]:
        return f"{found[3]}.{found[4]} (with PYTHONPATH=/{found[2].rstrip('/')})"
    return f"{found[2].replace('/', '.')}{found[3]}.{found[4]}"


def in_one_line(error: BaseException) -> str:
    """An error in one line; those of other people often have more."""
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
    """Context in which code that ends the process (``sys.exit``) is a mistake of its author.

    Args:
        what: what runs in it, for the message.
        kind: of the error.

    Raises:
        RlcompError: of that kind; it asked for the end; names file and line.
    """
    try:
        yield
    except SystemExit as error:
        frames = traceback.extract_tb(error.__traceback__)
        # exit() is a function of Python's own, and W&B puts one in the place of sys.exit.
        hooks = ("_sitebuiltins", "exit_hooks")
        last = [frame for frame in frames if not any(h in frame.filename for h in hooks)][-1]
        refused = kind(
            f"{what} ends the process (SystemExit: {error.code!r}, {last.filename}, line "
            f"{last.lineno}): raise an error there instead"
        )
        for note in getattr(error, "__notes__", []):
            add_note(refused, note)
        raise refused from error


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
