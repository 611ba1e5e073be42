"""Server of a repository's objects; tests in another jail send it requests.

Requests and answers are plain data. The server keeps other objects and refers to them by numbers.
This module is sent into the sandbox as text.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rlcomp.sandbox.plain_data import NotPlainData, encode
from rlcomp.sandbox.tree_modules import FolderFinder, TreeFinder

Answer = tuple[Any, ...]

_MAX_OBJECTS = 10_000  # maximum number of objects that the server keeps
_MAX_MESSAGE = 500  # maximum number of characters of an exception's message


class RepositoryServer:
    """Server of the requests to ``import`` a module, ``get`` an attribute, or ``call`` an object.

    A request is ``("import", name)``, ``("get", number, name)`` or ``("call", number, arguments,
    arguments by name)``. An argument is ``("value", plain data)`` or ``("object", number)``.

    An answer is ``("value", plain data)``, ``("object", number)``, ``("exception", names)`` for an
    exception class and its bases, or ``("raised", names, arguments, message)`` for a raised one.

    Args:
        files: texts by path.
    """

    def __init__(self, files: Mapping[str, str]) -> None:
        sys.meta_path += [TreeFinder(files), FolderFinder(files)]
        self.objects: list[Any] = []

    def ask(self, kind: str, *request: Any) -> Answer:  # noqa: ANN401
        """Return the answer to a request."""
        handlers: Mapping[str, Callable[..., Any]] = {
            "import": importlib.import_module,
            "get": self._get,
            "call": self._call,
        }
        try:
            return self._encode_answer(handlers[kind](*request))
        except BaseException as error:
            return "raised", _names(type(error)), _plain_arguments(error), str(error)[:_MAX_MESSAGE]

    def _get(self, number: int, name: str) -> Any:  # noqa: ANN401
        return getattr(self.objects[number], name)

    def _call(self, number: int, arguments: Sequence[Answer], named: Mapping[str, Answer]) -> Any:  # noqa: ANN401
        values = [self._decode_argument(each) for each in arguments]
        return self.objects[number](
            *values, **{key: self._decode_argument(named[key]) for key in named}
        )

    def _decode_argument(self, argument: Answer) -> Any:  # noqa: ANN401
        kind, value = argument
        return self.objects[value] if kind == "object" else value

    def _encode_answer(self, value: Any) -> Answer:  # noqa: ANN401
        if isinstance(value, type) and issubclass(value, BaseException):
            return "exception", _names(value)
        try:
            encode(value)
        except NotPlainData:
            if len(self.objects) == _MAX_OBJECTS:
                raise
            self.objects.append(value)
            return "object", len(self.objects) - 1
        return "value", value


def _names(kind: type) -> list[str]:
    """Return the names of an exception's class and its bases, in order of resolution."""
    return [f"{each.__module__}.{each.__qualname__}" for each in kind.__mro__]


def _plain_arguments(error: BaseException) -> Any:  # noqa: ANN401
    """Return the arguments of an exception, or its message if they are not plain data."""
    try:
        encode(error.args)
    except NotPlainData:
        return (str(error)[:_MAX_MESSAGE],)
    return error.args
