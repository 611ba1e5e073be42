"""Reward from a user-supplied function."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping

from rlcomp.arguments import NonEmptyText
from rlcomp.errors import ConfigError, nearest
from rlcomp.interfaces.reward import TextReward


class Function(TextReward):
    """Reward from a user function of any of prompt, response, answer and the task's columns.

    Reads and writes: see :class:`rlcomp.interfaces.reward.TextReward`.

    Args:
        function: such as ``def passed(response, unit_tests): ...``, called by name with what it
            names of ``prompt``, ``response``, ``answer`` and the columns of the example; a
            parameter with a default keeps it where the example lacks that column, ``**columns``
            gets all that are not named. None or NaN means "cannot be judged", an exception stops
            the run. In yaml: ``{_target_: my_module.passed, _partial_: true}``.
        name: of the part.

    Raises:
        ConfigError: the function cannot be called by name, its parameters cannot be seen, or it is
            async; when called: it needs a column that the example lacks, or returns no number.
        DataError: it returns what float32 holds as infinite.

    Examples:
        >>> passed = Function(function=lambda response, longest: float(len(response) <= longest))
        >>> passed.score_row({"prompt": "", "response": "four", "answer": "", "longest": 3})
        0.0
    """

    def __init__(
        self, *, function: Callable[..., float | None], name: NonEmptyText = "function"
    ) -> None:
        super().__init__()
        self.function = function
        self.name = name
        self._named, self._needed = _parameters(function)
        kinds = [one.kind for one in inspect.signature(function).parameters.values()]
        self._takes_all = inspect.Parameter.VAR_KEYWORD in kinds

    def score_row(self, row: Mapping[str, object]) -> float | None:
        """The value of the function."""
        for name in self._needed:
            if name not in row:
                raise ConfigError(
                    f"Function: the function needs {name!r}, which this example does not have"
                    f"{nearest(name, row)}; a reward is called with prompt, response, answer and "
                    "the columns of its task: rename the parameter, or give it a default"
                )
        return self.function(**{name: row[name] for name in row if self._takes(name)})

    def _takes(self, name: str) -> bool:
        own = name in TextReward.reads or name in _fixed(self.function)
        return name in self._named or (self._takes_all and not own)


def _parameters(function: Callable[..., object]) -> tuple[list[str], list[str]]:
    """The parameters of a function that are filled in by name, and those of them without default.

    What a partial fixed is the user's own, even if a column is called the same.
    """
    if not callable(function):
        raise ConfigError(f"Function: function is {function!r}: must be callable")
    if _is_async(function):
        raise ConfigError(
            f"Function: function is {function!r:.100}, an async function, which nobody awaits: "
            "make it a plain def that returns the score"
        )
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError) as error:
        raise ConfigError(
            f"Function: function is {function!r:.100}, whose parameters cannot be seen ({error}), "
            "but a reward is called by name: wrap it, as in def score(response): return ..."
        ) from error
    for one in parameters:
        if one.kind is one.POSITIONAL_ONLY and one.default is one.empty:
            raise ConfigError(
                f"Function: {one.name!r} is positional-only, but a reward is called by name"
            )
    by_name = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    free = [one for one in parameters if one.kind in by_name and one.name not in _fixed(function)]
    return [one.name for one in free], [one.name for one in free if one.default is one.empty]


def _fixed(function: Callable[..., object]) -> Iterable[str]:
    # A config's partial comes in a wrapper that names its node in errors.
    inner = inspect.unwrap(function)
    return inner.keywords if isinstance(inner, functools.partial) else ()


def _is_async(function: Callable[..., object]) -> bool:
    inner = inspect.unwrap(function)
    while isinstance(inner, functools.partial):
        inner = inspect.unwrap(inner.func)
    asked = (inner, getattr(type(inner), "__call__", None))  # noqa: B004 - of an object's class
    return any(inspect.iscoroutinefunction(f) or inspect.isasyncgenfunction(f) for f in asked)
