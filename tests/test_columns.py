"""What a column may hold: looked through without hanging where it holds itself."""

import pytest

from rlcomp.columns import MAX_BYTES, MAX_DEPTH, column_text
from rlcomp.errors import DataError


def nested(levels):
    value = "end"
    for _ in range(levels):
        value = [value]
    return value


def doubled(times):
    value = ["end"]
    for _ in range(times):
        value = [value, value]
    return value


def in_itself(*more):
    value = []
    value += [value, *more]
    return value


def test_as_many_levels_as_may_be_and_no_more():
    assert column_text("a:1", "c", nested(MAX_DEPTH)) == "[" * 64 + '"end"' + "]" * 64
    with pytest.raises(DataError, match=r"^a:1: column 'c' holds lists .* more than 64 deep"):
        column_text("a:1", "c", nested(MAX_DEPTH + 1))


@pytest.mark.parametrize("more", [(), (1,), ({"a": 2}, [])])
def test_a_list_within_itself_is_refused(more):
    with pytest.raises(DataError, match="more than 64 deep, or a container that contains itself"):
        column_text("a:1", "c", in_itself(*more))


def test_two_lists_within_each_other_are_refused():
    one, other = [], {}
    one += [other, other]
    other["a"], other["b"] = one, one

    with pytest.raises(DataError, match="that contains itself"):
        column_text("a:1", "c", [one, other])


def test_what_doubles_at_every_level_ends_at_the_limit():
    # Two to the 30 texts: no machine writes them down.
    with pytest.raises(DataError, match=f"more than {MAX_BYTES} values"):
        column_text("a:1", "c", doubled(30))


def test_one_list_in_two_places_is_no_circle():
    twice = [1]

    assert column_text("a:1", "c", {"a": twice, "b": twice}) == '{"a": [1], "b": [1]}'
