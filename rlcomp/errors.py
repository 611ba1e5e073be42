"""Exception hierarchy.

::

    RlcompError
    ├── UserError (ValueError)        a mistake in a config or a call; the command line exits with 2
    │   ├── ConfigError               a config path, its value and what to write instead
    │   ├── FlowError                 a stage reads a key that nobody wrote, or in the wrong order
    │   ├── DataError                 a file is missing, empty or malformed (names file and line)
    │   ├── ShapeError                two tensors do not fit together
    │   ├── MissingExtra              an optional dependency is not installed (names the extra)
    │   └── CheckpointError           nothing to resume from, or the checkpoint does not fit the run
    ├── NumericalError                a loss or gradient is not finite
    │   └── NonFiniteSteps            several optimiser steps in a row were not (holds the last one)
    ├── ContractError                 a component breaks the component contract (``rlcomp.testing``)
    └── Interrupted                   stopped on request, resumable; the command line exits with 75
"""

from __future__ import annotations

import contextlib
import difflib
import importlib
import sys
import traceback
from collections.abc import Iterable, Iterator, Sequence
from types import ModuleType
from typing import Any


class RlcompError(Exception):
    """Base class of all errors of this project."""


class UserError(RlcompError, ValueError):
    """A user error: the message names config path, value and remedy."""


class ConfigError(UserError):
    """A config path holds a value that cannot work."""


class FlowError(UserError):
    """The stages of a phase do not fit together."""


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


class ConfigErrors(ConfigError):
    """All independent mistakes of one config, reported at once."""

    def __init__(self, messages: Sequence[str]) -> None:
        self.messages = list(dict.fromkeys(messages))
        super().__init__("\n".join(self.messages))


def nearest(name: str, known: Iterable[str]) -> str:
    """The "did you mean" part of an "unknown name" message.

    Examples:
        >>> nearest("polcy", ["policy", "task"])
        "; did you mean 'policy'? (known: policy, task)"
    """
    options = sorted({str(option) for option in known})
    close = difflib.get_close_matches(name, options, n=1)
    guess = f"; did you mean '{close[0]}'?" if close else ""
    return f"{guess} (known: {', '.join(options) or 'none'})"


def add_note(error: BaseException, note: str) -> None:
    """Append a note to an exception (PEP 678)."""
    if sys.version_info >= (3, 11):
        error.add_note(note)
    else:
        error.args = ("\n".join([*map(str, error.args[:1]), note]), *error.args[1:])


@contextlib.contextmanager
def exit_refused(what: str) -> Iterator[None]:
    """Context in which code that ends the process (``sys.exit``) is a mistake of its author.

    Args:
        what: what runs in it, for the message.

    Raises:
        UserError: it asked for the end; names file and line.
    """
    try:
        yield
    except SystemExit as error:
        frames = traceback.extract_tb(error.__traceback__)
        # exit() is a function of Python's own, and W&B puts one in the place of sys.exit.
        hooks = ("_sitebuiltins", "exit_hooks")
        last = [frame for frame in frames if not any(h in frame.filename for h in hooks)][-1]
        raise UserError(
            f"{what} ends the process (SystemExit: {error.code!r}, {last.filename}, line "
            f"{last.lineno}): raise an error there instead"
        ) from error


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
