"""Sums modulo a number as a text."""

import re
from collections import Counter
from itertools import product
from math import log, prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.worlds.running_sum.task import RunningSum, RunningSums
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


# H = -(.56 ln .56 + .26 ln .26 + .18 ln .18) = .325 + .350 + .309 = .984 nats.
SKEWED = [0, 0.56, 0.26, 0, 0.18]


class Path:
    """In place of a generator: one path through all draws, and how likely it is."""

    def __init__(self, digits):
        self.left, self.share = list(digits), 1.0

    def randint(self, low, high):
        return low

    def randrange(self, below):
        self.share /= below
        return self.left.pop(0)

    def choices(self, population, weights, k):
        drawn = [self.left.pop(0) for _ in range(k)]
        self.share *= prod(weights[population.index(digit)] for digit in drawn)
        return drawn


@pytest.mark.parametrize("count", [2, 4])
def test_a_result_is_uniform_given_all_operands_but_the_first_or_the_second(count, monkeypatch):
    task = RunningSum(modulus=5, shortest=count, longest=count, probabilities=SKEWED)
    law: Counter[str] = Counter()
    for digits in product(range(5), repeat=count):
        path = Path(digits)
        monkeypatch.setattr("random.Random", lambda seed, path=path: path)
        text = task.example(0).answer
        assert (path.left, text[:-2]) == ([], "+".join(map(str, digits)))
        law[text] += path.share

    assert sum(law.values()) == pytest.approx(1)
    for hidden in (0, 2):  # where the first two operands stand
        joint: Counter[tuple[str, str]] = Counter()
        seen: Counter[str] = Counter()
        for text, share in law.items():
            others = text[:hidden] + "?" + text[hidden + 1 : -1]
            joint[others, text[-1]] += share
            seen[others] += share
        shares = [joint[others, digit] for others in seen for digit in "01234"]
        assert shares == pytest.approx([seen[others] / 5 for others in seen for _ in range(5)])


def test_operands_behind_the_second_follow_the_probabilities_and_the_first_two_none():
    task = RunningSum(modulus=5, shortest=5, longest=5, size=2000, probabilities=SKEWED)
    rows = [[int(d) for d in re.findall("[0-9]", task.example(n).answer)] for n in range(2000)]
    first, behind = ([digit for row in rows for digit in row[a:b]] for a, b in ((0, 2), (2, 5)))

    # Five standard errors: 5 sqrt(.2 * .8 / 4000) = .032 and 5 sqrt(.56 * .44 / 6000) = .032.
    assert [first.count(digit) / 4000 for digit in range(5)] == pytest.approx([0.2] * 5, abs=0.032)
    assert [behind.count(digit) / 6000 for digit in range(5)] == pytest.approx(SKEWED, abs=0.032)
    assert behind.count(0) == behind.count(3) == 0
    assert all(sum(row[:5]) % 5 == row[5] for row in rows)
    assert -sum(p * log(p) for p in SKEWED if p) == pytest.approx(0.984, abs=1e-3)


@pytest.mark.parametrize("wrong", [[0.5, 0.5], [0.3] * 5])
def test_probabilities_that_are_none_of_the_digits_are_refused(wrong):
    with pytest.raises(ConfigError, match="must be 5 numbers, one for each digit below modulus"):
        RunningSum(modulus=5, probabilities=wrong)


def test_running_sums_of_another_modulus():
    assert RunningSums(modulus=5)("4+3+0+4=") == "4+3=2 2+0=2 2+4=1"  # 7, 7, 11


@pytest.mark.parametrize("modulus", [1, 11])
def test_a_modulus_that_one_digit_cannot_write_is_refused(modulus):
    with pytest.raises(ConfigError, match=f"modulus is {modulus}: must be at"):
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
    assert RunningSums()(context) == sums


@pytest.mark.parametrize(("shortest", "longest"), [(1, 4), (5, 4)])
def test_lengths_that_cannot_be_are_refused(shortest, longest):
    with pytest.raises(ConfigError, match=f"shortest is {shortest}: must be at"):
        RunningSum(shortest=shortest, longest=longest)
