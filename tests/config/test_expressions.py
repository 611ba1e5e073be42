"""Literals and annotations, read from source."""

import ast
import sys
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal

import pytest

from rlcomp.arguments import Fraction, Ge, Gt, Interval, Le, Lt, MinLen, PositiveInt
from rlcomp.config import expressions as module
from rlcomp.config import source
from rlcomp.config.bases import lineage
from rlcomp.config.expressions import assigned_values, read_annotation, read_literal

TEXT = """
NAME = "a"
PAIR = (NAME, "b")
WRONG = f(1)

class Base:
    reads = ("x", "y")
    count: int = 3
    later: int
    more = {"k": 1}

class Own(Base):
    count = -2
    both, other = 1, 2

def function(): pass
"""


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A module with names and classes that expressions may mean."""
    monkeypatch.syspath_prepend(tmp_path)
    for cached in (source.source_of, source._bindings_by_name, lineage, assigned_values):
        cached.cache_clear()
    (tmp_path / "written_here.py").write_text(TEXT)
    yield "written_here"
    assert "written_here" not in sys.modules


def read(home, text):
    return read_literal(home, ast.parse(text, mode="eval").body)


VALUES = {
    "1": 1,
    "-1": -1,
    "-1.5": -1.5,
    "'a'": "a",
    "None": None,
    "True": True,
    "-True": -1,
    "('a', 2)": ("a", 2),
    "['a', ('b',)]": ("a", ("b",)),
    "{'a', 'b'}": frozenset({"a", "b"}),
    "()": (),
    "{'a': 1, 'b': (2,)}": {"a": 1, "b": (2,)},
    "{**{'a': 1}, 'a': 2}": {"a": 2},
    "{'a': 2, **{'a': 1}}": {"a": 1},
    "(*'ab', *(1, 2))": ("a", "b", 1, 2),
    "NAME": "a",
    "(*PAIR, NAME)": ("a", "b", "a"),
    "Own.count": -2,
    "Base.count": 3,
    "(*Own.reads, 'z')": ("x", "y", "z"),
    "{**Own.more, 'l': 2}": {"k": 1, "l": 2},
    str(2**64 - 1): 2**64 - 1,
}


@pytest.mark.parametrize("text", VALUES)
def test_what_an_expression_of_literals_is(text, home):
    found = read(home, text)

    assert found == VALUES[text]
    assert type(found) is type(VALUES[text])


REFUSED = [
    *("f(1)", "a + b", "1 + 1", "+1", "not 1", "~1", "-NAME", "lambda: 1", "[x for x in y]"),
    *("WRONG", "Gone", "function", "Own", "Own.gone", "Own.later", "Own.both", "Gone.reads"),
    *("function.reads", "Own.reads.first", "f().reads", str(2**64), str(-(2**64)), "{f(1): 1}"),
]


@pytest.mark.parametrize("text", REFUSED)
def test_what_is_no_literal_is_refused(text, home):
    with pytest.raises(ValueError, match=r"."):
        read(home, text)


@pytest.mark.parametrize("text", ["(*1,)", "{**1}", "{[1]: 2}", "{{'a': 1}: 2}"])
def test_what_cannot_be_unpacked_or_be_a_key_is_refused(text, home):
    if text == "{[1]: 2}":  # a list is read as a tuple, which may be one
        assert read(home, text) == {(1,): 2}
        return
    with pytest.raises(TypeError):
        read(home, text)


def test_a_sign_of_what_is_no_number_changes_nothing(home):
    assert read(home, "-'a'") == "a"
    assert read(home, "-None") is None


def test_nothing_is_no_literal(home):
    with pytest.raises(ValueError, match=r"."):
        read_literal(home, None)


def nested(depth, opening="(", closing=",)"):
    return opening * depth + "1" + closing * depth


def test_it_is_nested_so_deeply_and_no_deeper(home):
    deepest = module._MAX_DEPTH

    read(home, nested(deepest))
    read(home, nested(deepest, "{1: ", "}"))
    for text in (nested(deepest + 1), nested(deepest + 1, "{1: ", "}")):
        with pytest.raises(ValueError, match="too deep"):
            read(home, text)
    starred = "(*" * (deepest + 1) + "()" + ",)" * (deepest + 1)
    with pytest.raises(ValueError, match="too deep"):
        read(home, starred)


def chain(tmp_path, count):
    names = [f"N{n} = N{n + 1}\n" for n in range(count)]
    classes = [f"class C{n}:\n    v = C{n + 1}.v\n" for n in range(count)]
    text = "".join(names) + f"N{count} = 1\n" + "".join(classes) + f"class C{count}:\n    v = 1\n"
    (tmp_path / "leads_on.py").write_text(text + "A = (B,)\nB = (A,)\n")


def test_names_lead_on_so_far_and_not_in_a_circle(home, tmp_path):
    farthest = module._MAX_NAMES
    chain(tmp_path, farthest)

    # The name itself leads on once.
    assert read("leads_on", "N1") == read("leads_on", "C1.v") == 1
    for text in ("N0", "C0.v", "A"):
        with pytest.raises(ValueError, match="circle"):
            read("leads_on", text)


def test_it_holds_so_much_and_no_more(home, monkeypatch):
    monkeypatch.setattr(module, "_MAX_ITEMS", 6)

    assert read(home, "(1, 2, 3, 4, 5)") == (1, 2, 3, 4, 5)  # itself and five items
    assert read(home, "(*'ab', 3)") == ("a", "b", 3)  # itself, a text, two characters, an item
    assert read(home, "{1: 2, 3: 4}") == {1: 2, 3: 4}
    for text in ("(1, 2, 3, 4, 5, 6)", "(*'abcd', 3)", "{1: 2, 3: 4, 5: 6}", "{**{1: 2, 3: 4}}"):
        with pytest.raises(ValueError, match="more than 6"):
            read(home, text)


def test_what_a_class_body_binds_is_its_last_assignment():
    (cls,) = ast.parse(
        "class A:\n    a = 1\n    a = 2\n    b: int = 3\n    c, d = e\n    f: int"
    ).body

    found = {name: value and ast.unparse(value) for name, value in assigned_values(cls).items()}

    assert found == {"a": "2", "b": "3", "c": None, "d": None}


def test_limits_leave_room_for_declarations():
    assert (module._MAX_NAMES, module._MAX_DEPTH, module._MAX_ITEMS) == (8, 32, 10_000)


TYPES_TEXT = """
Kind = Literal['a', 'b']
Large = Kind
Odd = f(1)
class A: pass
Whole = Annotated[int, Ge(3)]
"""


@pytest.fixture
def types_home(tmp_path, monkeypatch):
    """A module that defines types of its own."""
    monkeypatch.syspath_prepend(tmp_path)
    for cached in (source.source_of, source._bindings_by_name):
        cached.cache_clear()
    (tmp_path / "types_here.py").write_text(TYPES_TEXT)
    return "types_here"


def read_type(types_home, text):
    return read_annotation(types_home, ast.parse(text, mode="eval").body)


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
def test_the_type_that_an_annotation_stands_for(text, types_home):
    found = read_type(types_home, text)

    if text == "dict[int]":  # one of two is missing: no type that could be checked
        assert found in (Any, dict[int])
        return
    assert found == TYPES[text]


def test_of_nothing_anything_is_taken(types_home):
    assert read_annotation(types_home, None) is Any


def test_what_is_true_is_no_number(types_home):
    (found,) = typing.get_args(read_type(types_home, "Literal[True]"))

    assert found is True
    assert read_type(types_home, "Annotated[int, Ge(True)]") is int


def nested_type(depth):
    return "list[" * depth + "int" + "]" * depth


def depth_of(found):
    count = 0
    while typing.get_args(found):
        (found,) = typing.get_args(found)
        count += 1
    return count, found


def test_a_nesting_is_followed_so_deeply_and_no_deeper(types_home, monkeypatch):
    monkeypatch.setattr(module, "_MAX_DEPTH", 6)

    assert depth_of(read_type(types_home, nested_type(6))) == (6, int)
    assert depth_of(read_type(types_home, nested_type(7))) == (6, Any)


def test_so_many_parts_are_read_and_no_more(types_home, monkeypatch):
    monkeypatch.setattr(module, "_MAX_NODES", 5)

    # Itself, the generic, and three members.
    assert read_type(types_home, "tuple[int, int, int]") == tuple[int, int, int]
    assert read_type(types_home, "tuple[int, int, int, int]") == tuple[int, int, int, Any]
    assert read_type(types_home, "Literal[1, 2, 3, 4, 5]") == Literal[1, 2, 3, 4, 5]
    assert read_type(types_home, "Literal[1, 2, 3, 4, 5, 6]") is Any


def test_limits_leave_room_for_constructors():
    assert (module._MAX_DEPTH, module._MAX_NODES) == (32, 500)
