"""Reader of a reward function's signature; the function is not called."""

from __future__ import annotations

import functools
import importlib
import inspect
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from rlcomp.arguments import Unbuilt
from rlcomp.errors import ConfigError, as_dotted, in_one_line, refuse_exit

# TRL's convention: a function with one of these parameters scores the whole batch.
_WHOLE_BATCH = ("prompts", "completions")


@dataclass(frozen=True)
class Signature:
    """Parameters of a reward function that are passed by name.

    Attributes:
        named: names of all parameters that a partial has not set.
        needed: names of those without a default.
        fixed: names of parameters that a partial has set; a column of the same name is not passed.
        takes_all: whether the function takes any other name (``**columns``).
        is_async: whether the function must be awaited.
    """

    named: tuple[str, ...]
    needed: tuple[str, ...]
    fixed: tuple[str, ...] = ()
    takes_all: bool = False
    is_async: bool = False

    @property
    def whole_batch(self) -> bool:
        """Return whether the function is called once for a batch instead of once for each row."""
        return any(name in self.named for name in _WHOLE_BATCH)

    def takes(self, name: str) -> bool:
        """Return whether the function receives a column of this name."""
        return name in self.named or (self.takes_all and name not in self.fixed)


def read_signature(function: str | Unbuilt | Callable[..., object]) -> Signature:
    """Return the signature of a reward function.

    Args:
        function: the function, its dotted path, or the path and the arguments of a class whose
            instances are called.

    Raises:
        ConfigError: ``function`` is no dotted path, cannot be imported, or is not callable; it is a
            class without arguments, or arguments come with what is no class with ``__call__``; the
            parameters cannot be read, or a needed one cannot be passed by name; or the class does
            not take the arguments, or they are not JSON.
    """
    if isinstance(function, Unbuilt):
        return _read_object_signature(function)
    if isinstance(function, str):
        target = _import_target(function)
        if inspect.isclass(target):
            raise ConfigError(
                f"function is {function!r}, a class: set function={{_target_: {function}}}, with "
                "the arguments of its constructor"
            )
        return _build_signature(target, function)
    return _build_signature(function, f"{function!r:.100}")


def _read_object_signature(function: Unbuilt) -> Signature:
    cls = _import_target(function.target)
    if not inspect.isclass(cls) or not any("__call__" in vars(base) for base in cls.__mro__[:-1]):
        raise ConfigError(
            f"function._target_ is {function.target!r}: must be a class with __call__; if it is a "
            f"function, set function={function.target}"
        )
    try:
        inspect.signature(cls).bind(**function.arguments)
        json.dumps(dict(function.arguments))
    except TypeError as error:
        raise ConfigError(f"function ({function.target}): {error}") from error
    # None stands for ``self``, which is no parameter of the call.
    return _build_signature(functools.partial(cls.__call__, None), function.target)


def _import_target(path: str) -> Any:  # noqa: ANN401
    if path.endswith(".py"):
        raise _file_path_error(path)
    if dotted := as_dotted(path):
        raise ConfigError(f"function is {path!r}: must be a dotted path; set function={dotted}")
    module, _, name = path.rpartition(".")
    if not module or module == "__main__":
        raise ConfigError(
            f"function is {path!r}: must be package.module.name, because worker processes "
            "import it; put the function into a module"
        )
    try:
        with refuse_exit(f"function is {path!r}: importing it"):
            return getattr(importlib.import_module(module), name)
    except Exception as error:
        raise ConfigError(f"function is {path!r}: {in_one_line(error)}") from error


def _file_path_error(path: str) -> ConfigError:
    """Return the error for a file path where a function is expected; it lists the functions."""
    module = path[:-3].removeprefix("./").replace("/", ".")
    try:
        with refuse_exit(f"function is {path!r}: importing it"):
            members = vars(importlib.import_module(module))
    except Exception:  # importing the corrected name will report the error
        members = {}
    names = ", ".join(
        name
        for name, value in members.items()
        if inspect.isfunction(value) and getattr(value, "__module__", "") == module
    )
    hint = f"; its functions are {names}" if names else ""
    return ConfigError(
        f"function is {path!r}: must be a dotted path, not a file; "
        f"set function={module}.FUNCTION{hint}"
    )


def _build_signature(function: Callable[..., object], description: str) -> Signature:
    if not callable(function):
        raise ConfigError(f"function is {description}: must be callable")
    try:
        parameters = [*inspect.signature(function).parameters.values()]
    except (TypeError, ValueError) as error:
        raise ConfigError(
            f"function is {description}: its parameters cannot be read ({error}), and a reward is "
            "called by name; wrap it, as in def score(response): return ..."
        ) from error
    for parameter in parameters:
        if parameter.kind is parameter.POSITIONAL_ONLY and parameter.default is parameter.empty:
            raise ConfigError(
                f"function is {description}: its parameter {parameter.name!r} is positional-only, "
                "but a reward is called by name; remove the / from its signature"
            )
    # Building a config wraps a partial, so that errors name its node.
    inner = inspect.unwrap(function)
    fixed = tuple(inner.keywords) if isinstance(inner, functools.partial) else ()
    by_name = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    free = [
        parameter
        for parameter in parameters
        if parameter.kind in by_name and parameter.name not in fixed
    ]
    return Signature(
        tuple(parameter.name for parameter in free),
        tuple(parameter.name for parameter in free if parameter.default is parameter.empty),
        fixed,
        any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters),
        _is_async(function),
    )


def unwrap(function: object) -> object:
    """Return the function inside partials (such as Hydra's ``_partial_``) and wrappers."""
    while True:
        if isinstance(function, functools.partial):
            function = function.func
        elif hasattr(function, "__wrapped__"):
            function = function.__wrapped__
        else:
            return function


def _is_async(function: Callable[..., object]) -> bool:
    inner = unwrap(function)
    candidates = (inner, getattr(type(inner), "__call__", None))  # noqa: B004 - of an object's class
    return any(inspect.iscoroutinefunction(f) or inspect.isasyncgenfunction(f) for f in candidates)
