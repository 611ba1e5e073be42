"""Stand-ins for what tests import of a repository that is in another sandbox.

A stand-in has no equality: what the tests compare is plain data, which keeps no method of the
repository's. So nothing in the repository decides what equals what, and no test framework of
these tests is within its reach. Sent into the sandbox as text.
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

_PYTHON = {*sys.stdlib_module_names, "org"}  # copy tries org.python.core, of Jython
_exceptions: dict[str, type[Exception]] = {}


class StandIn:
    """An object of the repository: its names, calls and items are asked of it there."""

    def __init__(self, ask: Ask, number: int) -> None:
        self.__dict__.update(_ask=ask, _number=number)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        if name in _VERDICTS:
            raise AttributeError(f"objects of the repository have no {name} here: make it a text")
        return meant(self._ask, self._ask("get", self._number, name))

    def __setattr__(self, name: str, value: object) -> None:
        _of("builtins", "setattr", self._ask)(self, name, value)

    def __call__(self, *arguments: Any, **named: Any) -> Any:  # noqa: ANN401
        """Call it there."""
        given = [_sent(each) for each in arguments]
        named = {key: _sent(value) for key, value in named.items()}
        return meant(self._ask, self._ask("call", self._number, given, named))

    def __enter__(self) -> Any:  # noqa: ANN401
        return self.__getattr__("__enter__")()

    def __exit__(self, *_: object) -> None:
        # Never true: it would swallow what the tests say of the repository.
        self.__getattr__("__exit__")(None, None, None)

    def __instancecheck__(self, other: object) -> bool:
        return isinstance(other, StandIn) and bool(
            _of("builtins", "isinstance", self._ask)(other, self)
        )

    def __eq__(self, other: object) -> bool:
        raise TypeError("objects of the repository cannot be compared here: compare plain data")

    __hash__ = object.__hash__


def _operator(module: str, name: str) -> Callable[..., Any]:
    return lambda self, *rest: _of(module, name, self._ask)(self, *rest)


# No operator that takes what a test expects (``==``, ``-``, ``in``): it would be the repository's
# to say that its answer is right. Nor the questions of texts and sets that are of this kind.
for _name in ("len", "str", "repr", "bool", "int", "float", "iter", "next"):
    setattr(StandIn, f"__{_name}__", _operator("builtins", _name))
for _name in ("getitem", "setitem", "delitem"):
    setattr(StandIn, f"__{_name}__", _operator("operator", _name))
_VERDICTS = {"startswith", "endswith", "issubset", "issuperset", "isdisjoint"}


def _of(module: str, name: str, ask: Ask) -> Any:  # noqa: ANN401
    """A function of Python, in the other sandbox."""
    return getattr(meant(ask, ask("import", module)), name)


def _sent(value: object) -> tuple[str, object]:
    if isinstance(value, StandIn):
        return "object", value.__dict__["_number"]
    return "value", value


def meant(ask: Ask, answer: Sequence[Any]) -> Any:  # noqa: ANN401
    """What an answer of the repository stands for; raises what it raised."""
    what, *told = answer
    if what == "value":
        return told[0]
    if what == "object":
        return StandIn(ask, int(told[0]))
    if what == "exception":
        return exception_class(told[0])
    names, arguments, message = told
    try:
        error = exception_class(names)(*arguments)
    except TypeError:  # one that wants other arguments than it holds
        error = RuntimeError(f"{names[0]}: {message}")
    raise error


def exception_class(names: Sequence[str]) -> type[Exception]:
    """The class of that name here; of the repository's own one with the same bases.

    Never one that would end the tests: ``SystemExit`` and its like are a ``RuntimeError``.
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
    """Modules of the repository: found and loaded there."""

    def __init__(self, ask: Ask) -> None:
        self.ask = ask

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """A stand-in; None where the repository has no such module.

        Nor what Python itself tries to import and lacks here: its modules are its own.
        """
        if fullname.partition(".")[0] in _PYTHON:
            return None
        answer = self.ask("import", fullname)
        if answer[0] == "raised" and answer[3] == f"No module named {fullname!r}":
            return None
        return ModuleSpec(fullname, self, is_package=True, loader_state=meant(self.ask, answer))

    def exec_module(self, module: ModuleType) -> None:
        """Look up its names there; those of Python itself (``__all__``) are not its to say."""
        assert module.__spec__ is not None
        there = module.__spec__.loader_state

        def look_up(name: str) -> Any:  # noqa: ANN401
            if name.startswith("__"):
                raise AttributeError(name)
            return getattr(there, name)

        vars(module)["__getattr__"] = look_up
