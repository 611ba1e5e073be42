"""Plain data as text: the only values that are exchanged with an untrusted program.

Plain data are None, bool, int, float, complex, str, bytes, list, tuple, set, frozenset and dict,
nested at most 30 deep. A decoded value has exactly these types. A subclass loses its methods,
so that a program's own ``__eq__`` cannot decide whether its answer is right.

The text is JSON without line breaks. Numbers that JSON may change, bytes and containers are tagged:
``["int", "-ff"]``, ``["float", "nan"]``, ``["tuple", 1, 2]``, ``["dict", [key, value], ...]``.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any, NoReturn

MAX_DEPTH = 30
MAX_BYTES = 1 << 20
# Maximum size of a decoded set or dict: members with equal hashes take quadratic time.
MAX_HASHED = 2000
_EXACT_IN_JSON = 1 << 53


class NotPlainData(ValueError):
    """Error of a value that is not plain data, or exceeds a limit on its size or depth."""


def encode(value: object) -> str:
    """Return a value as text.

    Raises:
        NotPlainData: the value is not plain data, too deep or too long.

    Examples:
        >>> encode({"a": (1, 2.5)})
        '["dict",["a",["tuple",1,2.5]]]'
        >>> encode(iter([]))
        Traceback (most recent call last):
        ...
        rlcomp.sandbox.plain_data.NotPlainData: list_iterator is not plain data
    """
    text = json.dumps(_to_json(value, 0), separators=(",", ":"))
    if len(text) > MAX_BYTES:
        raise NotPlainData(f"a value of {len(text)} bytes, more than {MAX_BYTES}")
    return text


def decode(text: str | bytes) -> Any:  # noqa: ANN401
    """Return the value of an untrusted text.

    Raises:
        NotPlainData: the text encodes no value, is too long, or its value is too deep or has a
            set or a dict of more than ``MAX_HASHED`` members.

    Examples:
        >>> decode('["set",1,["int","-ff"]]') == {1, -255}
        True
    """
    if len(text) > MAX_BYTES:
        raise NotPlainData(f"a value of {len(text)} bytes, more than {MAX_BYTES}")
    try:
        return _from_json(json.loads(text, parse_constant=_refuse_constant), 0)
    except NotPlainData:
        raise
    except (ValueError, TypeError, LookupError, RecursionError) as error:
        raise NotPlainData(f"not a value: {type(error).__name__}") from error


_COLLECTIONS: dict[str, type[Any]] = {
    "list": list,
    "tuple": tuple,
    "set": set,
    "frozenset": frozenset,
}


def _to_json(value: Any, depth: int) -> Any:  # noqa: ANN401
    # A value of a subclass is written by methods of the base class; overrides are not called.
    kind = type(value)
    if value is None or kind is bool:
        return value
    for base, write in _SCALAR_WRITERS:
        if issubclass(kind, base):
            return write(value)
    if depth >= MAX_DEPTH:
        raise NotPlainData(f"nested more than {MAX_DEPTH} deep")
    for tag, base in _COLLECTIONS.items():
        if issubclass(kind, base):
            return [tag, *(_to_json(each, depth + 1) for each in base.__iter__(value))]
    if issubclass(kind, dict):
        pairs = dict.items(value)
        return ["dict", *([_to_json(k, depth + 1), _to_json(v, depth + 1)] for k, v in pairs)]
    raise NotPlainData(f"{kind.__name__} is not plain data")


def _write_int(value: int) -> Any:  # noqa: ANN401
    number = int.__index__(value)
    return number if abs(number) < _EXACT_IN_JSON else ["int", format(number, "x")]


def _write_float(value: float) -> Any:  # noqa: ANN401
    number = float.__float__(value)
    return number if math.isfinite(number) else ["float", float.__repr__(number)]


def _write_complex(value: complex) -> Any:  # noqa: ANN401
    number = complex.__pos__(value)
    return ["complex", _write_float(number.real), _write_float(number.imag)]


_SCALAR_WRITERS: tuple[tuple[type[Any], Callable[[Any], Any]], ...] = (
    (int, _write_int),
    (float, _write_float),
    (str, lambda value: str.__str__(value)),
    (bytes, lambda value: ["bytes", bytes.hex(value)]),
    (complex, _write_complex),
)


def _refuse_constant(word: str) -> NoReturn:
    raise ValueError(word)


def _from_json(item: Any, depth: int) -> Any:  # noqa: ANN401
    if not isinstance(item, list):
        if isinstance(item, dict):
            raise NotPlainData("an object is no value")
        return item
    tag, *content = item
    if tag in _SCALAR_READERS:
        return _SCALAR_READERS[tag](*content)
    if depth >= MAX_DEPTH:
        raise NotPlainData(f"nested more than {MAX_DEPTH} deep")
    if len(content) > MAX_HASHED and tag in ("set", "frozenset", "dict"):
        raise NotPlainData(f"a {tag} of more than {MAX_HASHED} members")
    if tag == "dict":
        return {_from_json(k, depth + 1): _from_json(v, depth + 1) for k, v in content}
    return _COLLECTIONS[tag](_from_json(each, depth + 1) for each in content)


def _read_complex(real: Any, imaginary: Any) -> complex:  # noqa: ANN401
    # At MAX_DEPTH a part may be a number or a tagged float, but no container.
    return complex(*(float(_from_json(each, MAX_DEPTH)) for each in (real, imaginary)))


_FLOATS = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}
_SCALAR_READERS: dict[str, Callable[..., Any]] = {
    "int": lambda digits: int(digits, 16),
    "float": lambda word: _FLOATS[word],
    "complex": _read_complex,
    "bytes": bytes.fromhex,
}
