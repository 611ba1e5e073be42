"""The codec of plain data: values go through unchanged, and nothing else does."""

import math

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rlcomp.sandbox.plain_data import MAX_BYTES, NotPlainData, decode, encode

HASHABLE = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary()
    | st.complex_numbers(allow_nan=False),
    lambda inner: st.tuples(inner, inner) | st.frozensets(inner, max_size=3),
    max_leaves=3,
)  # fmt: skip
VALUES = st.recursive(
    HASHABLE,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.sets(HASHABLE, max_size=3)
        | st.dictionaries(HASHABLE, inner, max_size=3)
    ),
    max_leaves=5,
)


def same(one, other):
    """Equal, and of the same types all through."""
    if type(one) is not type(other):
        return False
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        return all(map(same, one.items(), other.items())) and len(one) == len(other)
    return repr(one) == repr(other) if isinstance(one, (float, complex)) else one == other


@settings(suppress_health_check=[HealthCheck.too_slow])  # a busy machine is not a bug
@given(VALUES)
def test_a_value_survives_encoding(value):
    assert same(decode(encode(value)), value)


@pytest.mark.parametrize(
    "value", [math.nan, -math.inf, -0.0, 2**53, -(2**53) + 1, 10**4000, "\ud800\n"]
)
def test_values_that_json_may_lose_come_back(value):
    assert repr(decode(encode(value))) == repr(value)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ((1, [True, None]), '["tuple",1,["list",true,null]]'),
        ({"k": b"\x01\xff"}, '["dict",["k",["bytes","01ff"]]]'),
        (2**53 + 1, '["int","20000000000001"]'),
        (-(2**53), '["int","-20000000000000"]'),
        (2**53 - 1, "9007199254740991"),
        (complex(1, math.inf), '["complex",1.0,["float","inf"]]'),
        (frozenset({3}), '["frozenset",3]'),
        ({7}, '["set",7]'),
    ],
)
def test_the_text_of_a_value(value, text):
    assert encode(value) == text


class Liar(int):
    """An int of 3 that says otherwise wherever it is asked."""

    def __eq__(self, other):
        return True

    __hash__ = int.__hash__

    def __index__(self):
        return 5

    __int__ = __abs__ = __index__

    def __repr__(self):
        return "5"


class Words(str):
    def __str__(self):
        return "other"


class Items(dict):
    def items(self):
        return [("right", 5)]


class Numbers(list):
    def __iter__(self):
        return iter([5])


class Real(float):
    def __repr__(self):
        return "nan"


class Plane(complex):
    real = imag = 5.0


@pytest.mark.parametrize(
    ("value", "plain"),
    [(Liar(3), 3), (Words("w"), "w"), (Items(a=1), {"a": 1}), (Numbers([1, 2]), [1, 2]), (Real(2.5), 2.5),
     (Plane(1, 2), 1 + 2j)],
)  # fmt: skip
def test_a_subclass_arrives_as_its_base(value, plain):
    arrived = decode(encode(value))

    assert type(arrived) is type(plain)
    assert plain == arrived


@pytest.mark.parametrize(
    "value", [object(), iter([]), len, range(3), {1: object()}, bytearray(), type]
)
def test_anything_else_is_refused_by_its_type(value):
    with pytest.raises(NotPlainData, match="is not plain data"):
        encode(value)


def nested(depth):
    value = 0
    for _ in range(depth):
        value = [value]
    return value


def test_thirty_levels_and_no_more():
    assert decode(encode(nested(30))) == nested(30)
    for depth in (31, 500):
        with pytest.raises(NotPlainData, match="nested more than 30 deep"):
            encode(nested(depth))
        with pytest.raises(NotPlainData):
            decode('["list",' * depth + "0" + "]" * depth)


@pytest.mark.parametrize(("left", "right"), [('["dict",[0,', "]]"), ('["tuple",', "]")])
def test_thirty_levels_of_any_container(left, right):
    assert decode(left * 29 + '["tuple",0]' + right * 29)
    with pytest.raises(NotPlainData, match="nested more than 30 deep"):
        decode(left * 30 + '["tuple",0]' + right * 30)


def test_a_key_is_a_level_deeper():
    assert decode('["dict",[' + '["tuple",' * 29 + "0" + "]" * 29 + ",0]]")
    with pytest.raises(NotPlainData, match="nested more than 30 deep"):
        decode('["dict",[' + '["tuple",' * 30 + "0" + "]" * 30 + ",0]]")


def test_thirty_levels_of_dicts_are_written():
    def nested_dict(depth):
        return {0: nested_dict(depth - 1)} if depth else 0

    assert decode(encode(nested_dict(30))) == nested_dict(30)
    with pytest.raises(NotPlainData, match="nested more than 30 deep"):
        encode(nested_dict(31))


def test_a_mebibyte_and_no_more():
    assert MAX_BYTES == 1048576
    largest = "x" * (MAX_BYTES - 2)
    assert decode(encode(largest)) == largest
    with pytest.raises(
        NotPlainData, match=f"a value of {MAX_BYTES + 1} bytes, more than {MAX_BYTES}"
    ):
        encode(largest + "x")
    with pytest.raises(
        NotPlainData, match=f"a value of {MAX_BYTES + 1} bytes, more than {MAX_BYTES}"
    ):
        decode('"' + largest + 'x"')


@pytest.mark.parametrize("kind", ["set", "frozenset", "dict"])
def test_two_thousand_members_and_no_more(kind):
    def text(count):
        members = (f"[{i},0]" if kind == "dict" else str(i) for i in range(count))
        return f'["{kind}",{",".join(members)}]'

    assert len(decode(text(2000))) == 2000
    with pytest.raises(NotPlainData, match=f"a {kind} of more than 2000 members"):
        decode(text(2001))


def test_a_long_list_is_not_hashed():
    assert decode(encode(list(range(5000)))) == list(range(5000))


@pytest.mark.parametrize(
    "text",
    ["", "{", "{}", "[]", "[1]", '["other",1]', '["set",["list"]]', '["int","x"]', '["int",5]', '["int"]', "NaN",
     "Infinity", '["float","1e5"]', '["float",1]', '["complex",1]', '["complex","a",1]', '["bytes","0"]', '["dict",1]',
     '["dict",[1]]', '["dict",[["list"],1]]', "[" * 100000, '[["list"],1]', '["list",{"a":1}]', "5 5"],
)  # fmt: skip
def test_a_text_that_is_no_value_is_refused(text):
    with pytest.raises(NotPlainData):
        decode(text)
