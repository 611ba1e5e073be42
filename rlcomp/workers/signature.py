"""Signature of a reward function, read without calling it."""

from __future__ import annotations

import functools
import importlib
import inspect
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from rlcomp.arguments import Unbuilt
from rlcomp.errors import ConfigError, as_dotted, in_one_line, refuse_exit

# A function with one of these parameters judges the whole batch (TRL's convention).
_WHOLE_BATCH = ("prompts", "completions")


@dataclass(frozen=True)
class Signature:
    """The parameters of a reward function that are filled by name.

    Attributes:
        named: all of them.
        needed: parameters without a default.
        fixed: parameters that a partial has fixed: the user's own, even if a column has that name.
        takes_all: whether it also takes other names (``**columns``).
        is_async: whether it must be awaited.
    """

    named: tuple[str, ...]
    needed: tuple[str, ...]
    fixed: tuple[str, ...] = ()
    takes_all: bool = False
    is_async: bool = False

    @property
    def whole_batch(self) -> bool:
        """Return whether it is called once for a batch, not for each row."""
        return any(name in self.named for name in _WHOLE_BATCH)

    def takes(self, name: str) -> bool:
        """Return whether it gets a column of this name."""
        return name in self.named or (self.takes_all and name not in self.fixed)


def read_signature(function: str | Unbuilt | Callable[..., object]) -> Signature:
    """Return the signature of a function by dotted path, of an object's class, or of a function.

    Raises:
        ConfigError: it cannot be imported, cannot be called by name, or its parameters cannot be
            read.
    """
    if isinstance(function, Unbuilt):
        return _of_object(function)
    if isinstance(function, str):
        target = _found(function)
        if inspect.isclass(target):
            raise ConfigError(
                f"function is {function!r}, a class: name it with its arguments, "
                f"{{_target_: {function}}}"
            )
        return _signature(target, function)
    return _signature(function, f"{function!r:.100}")


def _of_object(function: Unbuilt) -> Signature:
    cls = _found(function.target)
    if not inspect.isclass(cls) or not any("__call__" in vars(base) for base in cls.__mro__[:-1]):
        raise ConfigError(
            f"function._target_ is {function.target!r}, no class whose objects can be called: "
            f"name a function by its path alone, function={function.target}"
        )
    try:
        inspect.signature(cls).bind(**function.arguments)
        json.dumps(dict(function.arguments))
    except TypeError as error:
        raise ConfigError(f"function ({function.target}): {error}") from error
    return _signature(functools.partial(cls.__call__, None), function.target)


def _found(path: str) -> Any:  # noqa: ANN401
    if path.endswith(".py"):
        raise _of_file(path)
    if meant := as_dotted(path):
        raise ConfigError(f"function is {path!r}: a dotted path names it; set function={meant}")
    module, _, name = path.rpartition(".")
    if not module or module == "__main__":
        raise ConfigError(
            f"function is {path!r}: must be package.module.name, which worker processes import; "
            "put the function into a module of its own"
        )
    try:
        with refuse_exit(f"function is {path!r}: importing it"):
            return getattr(importlib.import_module(module), name)
    except Exception as error:
        raise ConfigError(f"function is {path!r}: {in_one_line(error)}") from error


def _of_file(path: str) -> ConfigError:
    """Return the error of a file where a function is expected; it lists the file's functions."""
    module = path[:-3].removeprefix("./").replace("/", ".")
    try:
        with refuse_exit(f"function is {path!r}: importing it"):
            held = vars(importlib.import_module(module))
    except Exception:  # importing the corrected name will report the error
        held = {}
    own = [name for name in held if getattr(held[name], "__module__", "") == module]
    names = ", ".join(name for name in own if inspect.isfunction(held[name]))
    there = f" (it has {names})" if names else ""
    return ConfigError(
        f"function is {path!r}: a file is not named here, {module}.FUNCTION is{there}"
    )


def _signature(function: Callable[..., object], shown: str) -> Signature:
    if not callable(function):
        raise ConfigError(f"function is {shown}: must be callable")
    try:
        parameters = [*inspect.signature(function).parameters.values()]
    except (TypeError, ValueError) as error:
        raise ConfigError(
            f"function is {shown}, whose parameters cannot be seen ({error}), "
            "but a reward is called by name: wrap it, as in def score(response): return ..."
        ) from error
    for one in parameters:
        if one.kind is one.POSITIONAL_ONLY and one.default is one.empty:
            raise ConfigError(f"{one.name!r} is positional-only, but a reward is called by name")
    fixed = tuple(_fixed(function))
    by_name = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    free = [one for one in parameters if one.kind in by_name and one.name not in fixed]
    return Signature(
        tuple(one.name for one in free),
        tuple(one.name for one in free if one.default is one.empty),
        fixed,
        any(one.kind is one.VAR_KEYWORD for one in parameters),
        _is_async(function),
    )


def _fixed(function: Callable[..., object]) -> Iterable[str]:
    # A config's partial comes in a wrapper that names its node in errors.
    inner = inspect.unwrap(function)
    return inner.keywords if isinstance(inner, functools.partial) else ()


def unwrapped(function: object) -> object:
    """Return the function inside partials and wrappers, e.g. of Hydra's ``_partial_``."""
    while True:
        if isinstance(function, functools.partial):
            function = function.func
        elif hasattr(function, "__wrapped__"):
            function = function.__wrapped__
        else:
            return function


def _is_async(function: Callable[..., object]) -> bool:
    inner = unwrapped(function)
    candidates = (inner, getattr(type(inner), "__call__", None))  # noqa: B004 - of an object's class
    return any(inspect.iscoroutinefunction(f) or inspect.isasyncgenfunction(f) for f in candidates)
