import math
from collections.abc import Callable
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlcomp.arguments import (
    Checked,
    Fraction,
    NonEmptyText,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    Probability,
    problem,
)
from rlcomp.errors import ConfigError

GOOD = [
    (PositiveInt, 1),
    (NonNegativeInt, 0),
    (PositiveFloat, 1e-9),
    (NonNegativeFloat, 0),
    (Fraction, 0),
    (Probability, 1),
    (NonEmptyText, "a"),
    (float, 3),
    (bool, True),
    (int | None, None),
    (Literal["k1", "k3"], "k3"),
    (list[int], [1, 2]),
    (dict[str, float], {"a": 1}),
    (tuple[str, ...], ["a"]),
    (tuple[float, float], [1, 2.5]),
    (object, object()),
    (Callable[..., float], len),
]
BAD = [
    (PositiveInt, 0, "must be greater than 0"),
    (PositiveInt, 1.0, "must be an integer"),
    (PositiveInt, True, "must be an integer"),
    (NonNegativeInt, -1, "must be at least 0"),
    (PositiveFloat, 0.0, "must be greater than 0"),
    (NonNegativeFloat, "0", "must be a number"),
    (Fraction, 1.0, "must be less than 1"),
    (Probability, 1.1, "must be at most 1"),
    (NonEmptyText, "", "must not be empty"),
    (NonEmptyText, 3, "must be a text"),
    (float, float, "must be a number"),
    (float, math.nan, "must be finite"),
    (PositiveFloat, math.inf, "must be finite"),
    (float | None, -math.inf, "must be finite or must be null"),
    (list[float], [1.0, math.inf], "must be finite"),
    (float, 10**400, "must be finite"),
    (bool, 1, "must be true or false"),
    (tuple[float, float], [1.0], "must be a list of 2"),
    (tuple[float, float], [1.0, 2.0, 3.0], "must be a list of 2"),
    (int | None, "a", "must be an integer or must be null"),
    (Literal["k1", "k3"], "k2", "must be one of 'k1', 'k3'"),
    (list[int], [1, "2"], "must be an integer"),
    (list[str], "ab", "must be a list"),
    (dict[str, float], {"a": None}, "must be a number"),
    (dict[str, float], [1.0], "must be a mapping"),
]


@pytest.mark.parametrize(("annotation", "value"), GOOD)
def test_a_good_value_has_no_problem(annotation, value):
    assert problem(annotation, value) is None


@pytest.mark.parametrize(("annotation", "value", "words"), BAD)
def test_a_bad_value_is_named(annotation, value, words):
    assert problem(annotation, value) == words


@given(st.floats(allow_nan=False))
def test_a_probability_is_a_number_from_0_to_1(value):
    assert (problem(Probability, value) is None) == (0 <= value <= 1)


@pytest.mark.parametrize("annotation", [Probability, Fraction, PositiveFloat, NonNegativeFloat])
def test_nan_is_in_no_range(annotation):
    assert problem(annotation, float("nan")) is not None


def test_a_name_that_only_a_type_checker_imports_is_not_checked():
    class Part(metaclass=Checked):
        def __init__(self, *, tokenizer, steps):
            self.steps = steps

        __init__.__annotations__ = {"tokenizer": "Imported | Never", "steps": "PositiveInt"}

    assert Part(tokenizer="anything", steps=2).steps == 2
    with pytest.raises(ConfigError, match="steps is 0: must be greater than 0"):
        Part(tokenizer="anything", steps=0)


@pytest.mark.parametrize("text", ["Name", "Name[str]", "library.Name", "a.b.C[int] | None"])
@pytest.mark.parametrize("value", [None, 1, "text", ["a"], {"a": 1}])
def test_nor_is_what_is_made_of_such_a_name(text, value):
    class Part(metaclass=Checked):
        def __init__(self, *, part, steps):
            self.part = part

        __init__.__annotations__ = {"part": text, "steps": "PositiveInt"}

    assert Part(part=value, steps=2).part == value
    with pytest.raises(ConfigError, match="steps is 0: must be greater than 0"):
        Part(part=value, steps=0)
