"""A repository in a sandbox of its own: what its tests, in another one, ask of it.

Requests and answers are plain data. What is none stays here and is told by a number. Sent into the
sandbox as text.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rlcomp.sandbox.plain_data import NotPlain, encode
from rlcomp.sandbox.tree_modules import FolderFinder, TreeFinder

Answer = tuple[Any, ...]

_MOST = 10_000  # objects that tests may hold at a time


class Served:
    """Answers ``(what, ...)``: ``import`` a module, ``get`` a name of an object, ``call`` it.

    An answer is ``("value", plain data)``, ``("object", number)``, ``("exception", names)`` for a
    class of exceptions, with the names of its bases, or ``("raised", names, arguments, message)``.

    Args:
        files: texts by path.
    """

    def __init__(self, files: Mapping[str, str]) -> None:
        sys.meta_path += [TreeFinder(files), FolderFinder(files)]
        self.objects: list[Any] = []

    def ask(self, what: str, *request: Any) -> Answer:  # noqa: ANN401
        """Do what a request says."""
        steps: Mapping[str, Callable[..., Any]] = {
            "import": importlib.import_module,
            "get": self._get,
            "call": self._call,
        }
        try:
            return self._told(steps[what](*request))
        except BaseException as error:
            return "raised", _names(type(error)), _plain_arguments(error), str(error)[:500]

    def _get(self, number: int, name: str) -> Any:  # noqa: ANN401
        return getattr(self.objects[number], name)

    def _call(self, number: int, arguments: Sequence[Answer], named: Mapping[str, Answer]) -> Any:  # noqa: ANN401
        given = [self._meant(each) for each in arguments]
        return self.objects[number](*given, **{key: self._meant(named[key]) for key in named})

    def _meant(self, argument: Answer) -> Any:  # noqa: ANN401
        kind, value = argument
        return self.objects[value] if kind == "object" else value

    def _told(self, value: Any) -> Answer:  # noqa: ANN401
        if isinstance(value, type) and issubclass(value, BaseException):
            return "exception", _names(value)
        try:
            encode(value)
        except NotPlain:
            if len(self.objects) == _MOST:
                raise
            self.objects.append(value)
            return "object", len(self.objects) - 1
        return "value", value


def _names(kind: type) -> list[str]:
    """An exception's class and its bases, from itself up."""
    return [f"{each.__module__}.{each.__qualname__}" for each in kind.__mro__]


def _plain_arguments(error: BaseException) -> Any:  # noqa: ANN401
    try:
        encode(error.args)
    except NotPlain:
        return (str(error)[:500],)
    return error.args
