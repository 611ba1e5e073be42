"""Proxies of the objects that tests import from a repository in another jail.

A proxy cannot be compared: tests compare plain data, which has no methods of the repository. So the
repository cannot decide a comparison, and it cannot change the tests' framework. This module is
sent into the sandbox as text.
"""

from __future__ import annotations

import builtins
import sys
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

Ask = Callable[..., Any]

_PYTHON_MODULES = {
    *sys.stdlib_module_names,
    "org",
}  # copy tries to import org.python.core of Jython
_exceptions: dict[str, type[Exception]] = {}


class RepositoryProxy:
    """Proxy of an object of the repository; its attributes, calls and items are requests."""

    def __init__(self, ask: Ask, number: int) -> None:
        self.__dict__.update(_ask=ask, _number=number)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        if name in _REFUSED_METHODS:
            raise AttributeError(
                f"objects of the repository have no {name} in tests: convert it to a text"
            )
        return decode_answer(self._ask, self._ask("get", self._number, name))

    def __setattr__(self, name: str, value: object) -> None:
        _remote_function("builtins", "setattr", self._ask)(self, name, value)

    def __call__(self, *arguments: Any, **named: Any) -> Any:  # noqa: ANN401
        """Call the object in the repository's jail."""
        values = [_encode_argument(each) for each in arguments]
        named = {key: _encode_argument(value) for key, value in named.items()}
        return decode_answer(self._ask, self._ask("call", self._number, values, named))

    def __enter__(self) -> Any:  # noqa: ANN401
        return self.__getattr__("__enter__")()

    def __exit__(self, *_: object) -> None:
        # Return None: a true value would swallow failures of the tests.
        self.__getattr__("__exit__")(None, None, None)

    def __instancecheck__(self, other: object) -> bool:
        return isinstance(other, RepositoryProxy) and bool(
            _remote_function("builtins", "isinstance", self._ask)(other, self)
        )

    def __eq__(self, other: object) -> bool:
        raise TypeError("objects of the repository cannot be compared in tests: compare plain data")

    __hash__ = object.__hash__


def _operator(module: str, name: str) -> Callable[..., Any]:
    return lambda self, *rest: _remote_function(module, name, self._ask)(self, *rest)


# Operators and methods that take a test's expected value (``==``, ``-``, ``in``, ``startswith``)
# are left out, because the repository would decide whether its own answer is right.
for _name in ("len", "str", "repr", "bool", "int", "float", "iter", "next"):
    setattr(RepositoryProxy, f"__{_name}__", _operator("builtins", _name))
for _name in ("getitem", "setitem", "delitem"):
    setattr(RepositoryProxy, f"__{_name}__", _operator("operator", _name))
_REFUSED_METHODS = {"startswith", "endswith", "issubset", "issuperset", "isdisjoint"}


def _remote_function(module: str, name: str, ask: Ask) -> Any:  # noqa: ANN401
    """Return a proxy of a function of Python in the repository's jail."""
    return getattr(decode_answer(ask, ask("import", module)), name)


def _encode_argument(value: object) -> tuple[str, object]:
    if isinstance(value, RepositoryProxy):
        return "object", value.__dict__["_number"]
    return "value", value


def decode_answer(ask: Ask, answer: Sequence[Any]) -> Any:  # noqa: ANN401
    """Return the value or the proxy in an answer of the repository; raise its exception."""
    kind, *content = answer
    if kind == "value":
        return content[0]
    if kind == "object":
        return RepositoryProxy(ask, int(content[0]))
    if kind == "exception":
        return exception_class(content[0])
    names, arguments, message = content
    try:
        error = exception_class(names)(*arguments)
    except TypeError:  # the constructor needs other arguments
        error = RuntimeError(f"{names[0]}: {message}")
    raise error


def exception_class(names: Sequence[str]) -> type[Exception]:
    """Return a built-in exception class, or a copy of a class of the repository.

    Exceptions that would end the tests, such as ``SystemExit``, become a ``RuntimeError``.

    Args:
        names: dotted names of the class and of its bases, in order of resolution.
    """
    first, *bases = map(str, names)
    module, _, name = first.rpartition(".")
    if module == "builtins":
        kind = getattr(builtins, name, None)
        fits = isinstance(kind, type) and issubclass(kind, Exception)
        return kind if fits else type(name, (RuntimeError,), {})  # type: ignore[return-value]
    if first not in _exceptions:
        base = exception_class(bases) if bases else Exception
        _exceptions[first] = type(name, (base,), {"__module__": module})
    return _exceptions[first]


class RepositoryFinder(MetaPathFinder, Loader):
    """Finder and loader of proxies of the repository's modules."""

    def __init__(self, ask: Ask) -> None:
        self.ask = ask

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of a proxy; None if the repository has no such module.

        Modules of Python itself are never looked up in the repository.
        """
        if fullname.partition(".")[0] in _PYTHON_MODULES:
            return None
        answer = self.ask("import", fullname)
        if answer[0] == "raised" and answer[3] == f"No module named {fullname!r}":
            return None
        return ModuleSpec(
            fullname, self, is_package=True, loader_state=decode_answer(self.ask, answer)
        )

    def exec_module(self, module: ModuleType) -> None:
        """Make a module look up its names in the repository, except names such as ``__all__``."""
        assert module.__spec__ is not None
        remote_module = module.__spec__.loader_state

        def look_up(name: str) -> Any:  # noqa: ANN401
            if name.startswith("__"):
                raise AttributeError(name)
            return getattr(remote_module, name)

        vars(module)["__getattr__"] = look_up
