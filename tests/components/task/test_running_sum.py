"""Sums modulo a number as a text."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.task.running_sum import RunningSum, running_sums
from rlcomp.errors import ConfigError


@given(st.integers(2, 5), st.integers(0, 3), st.integers(0, 999))
def test_a_document_ends_in_the_last_digit_of_its_sum(shortest, more, index):
    example = RunningSum(shortest=shortest, longest=shortest + more).example(index)

    digits, result = example.answer.split("=")
    terms = digits.split("+")
    assert all(re.fullmatch("[0-9]", term) for term in terms)
    assert shortest <= len(terms) <= shortest + more
    assert result == str(sum(map(int, terms)))[-1]
    assert example.prompt + example.demonstration == example.answer == example.source
    assert example.prompt == terms[0]


def test_all_lengths_and_results_occur_and_an_index_is_one_document():
    task = RunningSum(shortest=2, longest=4, size=500)
    texts = [task.example(index).answer for index in range(len(task))]

    assert len(texts) == 500
    assert {len(text) for text in texts} == {5, 7, 9}
    assert {text[-1] for text in texts} == set("0123456789")
    assert texts == [RunningSum(shortest=2, longest=4).example(n).answer for n in range(500)]


@given(st.integers(2, 10), st.integers(0, 999))
def test_digits_and_results_are_below_the_modulus(modulus, index):
    digits, result = RunningSum(modulus=modulus).example(index).answer.split("=")

    terms = [int(term) for term in digits.split("+")]
    assert max(terms) < modulus
    assert int(result) < modulus
    assert (sum(terms) - int(result)) % modulus == 0


def test_running_sums_of_another_modulus():
    assert running_sums("4+3+0+4=", modulus=5) == "4+3=2 2+0=2 2+4=1"  # 7, 7, 11


@pytest.mark.parametrize("modulus", [1, 11])
def test_a_modulus_that_one_digit_cannot_write_is_refused(modulus):
    with pytest.raises(ConfigError, match=f"modulus is {modulus}: must be 2 to 10"):
        RunningSum(modulus=modulus)


@pytest.mark.parametrize(
    ("context", "sums"),
    [
        ("7+5+8+3=", "7+5=2 2+8=0 0+3=3"),  # 12, 20, 23
        ("1+2=3\n9+9=", "9+9=8"),
        ("4=", ""),
        ("", ""),
    ],
)
def test_the_running_sums_are_those_of_the_last_line(context, sums):
    assert running_sums(context) == sums


@pytest.mark.parametrize(("shortest", "longest"), [(1, 4), (5, 4)])
def test_lengths_that_cannot_be_are_refused(shortest, longest):
    with pytest.raises(ConfigError, match=f"shortest is {shortest}: must be at least 2"):
        RunningSum(shortest=shortest, longest=longest)
