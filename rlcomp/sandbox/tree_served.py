"""Server of a repository in its own sandbox; the tests in another sandbox send requests.

Requests and answers are plain data. Other objects stay here and are referred to by numbers. This
module is sent into the sandbox as text.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rlcomp.sandbox.plain_data import NotPlain, encode
from rlcomp.sandbox.tree_modules import FolderFinder, TreeFinder

Answer = tuple[Any, ...]

_MOST = 10_000  # most objects that tests may refer to


class Served:
    """Server of requests: ``import`` a module, ``get`` an attribute of an object, ``call`` it.

    An answer is ``("value", plain data)``, ``("object", number)``, ``("exception", names)`` for a
    class of exceptions, with the names of its bases, or ``("raised", names, arguments, message)``.

    Args:
        files: texts by path.
    """

    def __init__(self, files: Mapping[str, str]) -> None:
        sys.meta_path += [TreeFinder(files), FolderFinder(files)]
        self.objects: list[Any] = []

    def ask(self, what: str, *request: Any) -> Answer:  # noqa: ANN401
        """Answer a request."""
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
        values = [self._meant(each) for each in arguments]
        return self.objects[number](*values, **{key: self._meant(named[key]) for key in named})

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
    """Return the names of an exception's class and its bases, in order of resolution."""
    return [f"{each.__module__}.{each.__qualname__}" for each in kind.__mro__]


def _plain_arguments(error: BaseException) -> Any:  # noqa: ANN401
    try:
        encode(error.args)
    except NotPlain:
        return (str(error)[:500],)
    return error.args
