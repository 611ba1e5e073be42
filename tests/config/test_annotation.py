"""Annotations as types: read from a source, as far as they are understood."""

import ast
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal

import pytest

from rlcomp.arguments import Fraction, Ge, Gt, Interval, Le, Lt, MinLen, PositiveInt
from rlcomp.config import annotation as module
from rlcomp.config import source
from rlcomp.config.annotation import read_annotation

TEXT = """
Kind = Literal['a', 'b']
Large = Kind
Odd = f(1)
class A: pass
Whole = Annotated[int, Ge(3)]
"""


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A module that defines types of its own."""
    monkeypatch.syspath_prepend(tmp_path)
    for cached in (source.source_of, source._bound):
        cached.cache_clear()
    (tmp_path / "types_here.py").write_text(TEXT)
    return "types_here"


def read(home, text):
    return read_annotation(home, ast.parse(text, mode="eval").body)


TYPES = {
    "int": int,
    "None": None,
    "PositiveInt": PositiveInt,
    "Fraction | None": Fraction | None,
    "int | str | None": int | str | None,
    "list[int]": list[int],
    "dict[str, float]": dict[str, float],
    "tuple[int, ...]": tuple[int, ...],
    "Sequence[PositiveInt]": Sequence[PositiveInt],
    "Mapping[str, list[int]]": Mapping[str, list[int]],
    "Callable[[int], str]": Callable[..., Any],
    "Callable[..., Own]": Callable[..., Any],
    "Literal['a', 1, -2, 2.5, True, b'x']": Literal["a", 1, -2, 2.5, True, b"x"],
    "Kind": Literal["a", "b"],
    "Literal[Kind, 'c']": Literal["a", "b", "c"],
    "Large | None": Literal["a", "b"] | None,
    "Annotated[int, Ge(2)]": Annotated[int, Ge(2)],
    "Annotated[float, Gt(0), Lt(-1.5)]": Annotated[float, Gt(0), Lt(-1.5)],
    "Annotated[float, Interval(ge=0, lt=1)]": Annotated[float, Interval(ge=0, lt=1)],
    "Annotated[float, Le(1), 'a word', f(2), Ge(x), Ge(True)]": Annotated[float, Le(1)],
    "Annotated[list[int], MinLen(1)]": Annotated[list[int], MinLen(1)],
    "Annotated[int, 'a word']": int,
    "Whole": Annotated[int, Ge(3)],
    # Not understood, in all or in part.
    "Own": Any,
    "Odd": Any,
    "A": Any,
    "a.b": Any,
    "'int'": Any,
    "1": Any,
    "...": Any,
    "int & str": Any,
    "int + str": Any,
    "list[Own]": list[Any],
    "Own[int]": Any,
    "A[int]": Any,
    "int[str]": Any,
    "Literal[x]": Any,
    "Literal['a', x]": Any,
    "Literal['a', None]": Any,
    "Literal[list]": Any,
    "Annotated[int]": Any,
    "dict[int]": Any,
    f"Literal[{2**64}]": Any,
    f"Literal[{2**64 - 1}]": Literal[2**64 - 1],
}


@pytest.mark.parametrize("text", TYPES)
def test_the_type_that_an_annotation_stands_for(text, home):
    found = read(home, text)

    if text == "dict[int]":  # one of two is missing: no type that could be checked
        assert found in (Any, dict[int])
        return
    assert found == TYPES[text]


def test_of_nothing_anything_is_taken(home):
    assert read_annotation(home, None) is Any


def test_what_is_true_is_no_number(home):
    (found,) = typing.get_args(read(home, "Literal[True]"))

    assert found is True
    assert read(home, "Annotated[int, Ge(True)]") is int


def nested(depth):
    return "list[" * depth + "int" + "]" * depth


def depth_of(found):
    count = 0
    while typing.get_args(found):
        (found,) = typing.get_args(found)
        count += 1
    return count, found


def test_a_nesting_is_followed_so_deeply_and_no_deeper(home, monkeypatch):
    monkeypatch.setattr(module, "_DEEPEST", 6)

    assert depth_of(read(home, nested(6))) == (6, int)
    assert depth_of(read(home, nested(7))) == (6, Any)


def test_so_many_parts_are_read_and_no_more(home, monkeypatch):
    monkeypatch.setattr(module, "_LARGEST", 5)

    # Itself, the generic, and three members.
    assert read(home, "tuple[int, int, int]") == tuple[int, int, int]
    assert read(home, "tuple[int, int, int, int]") == tuple[int, int, int, Any]
    assert read(home, "Literal[1, 2, 3, 4, 5]") == Literal[1, 2, 3, 4, 5]
    assert read(home, "Literal[1, 2, 3, 4, 5, 6]") is Any


def test_limits_leave_room_for_constructors():
    assert (module._DEEPEST, module._LARGEST) == (32, 500)
