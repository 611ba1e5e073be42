import pytest

from rlcomp.audit.wrong_answers import (
    different_gold,
    increment_number,
    surely_differ,
    value_of,
    wrong_numbers,
    wrong_words,
)


@pytest.mark.parametrize(
    ("gold", "made"),
    [
        (
            "72",
            {
                "off_by_one": ["73", "71"],
                "sign": ["-72"],
                "shifted": ["720", "7.2"],
                "swapped": ["27"],
                "dropped": ["7"],
            },
        ),
        # -0 and 0 * 10 have the same value, and nothing is left of it without its digit.
        ("0", {"off_by_one": ["1", "-1"], "sign": [], "shifted": [], "swapped": [], "dropped": []}),
        # Without the last digit it is 1.5 again.
        (
            "-1.50",
            {
                "off_by_one": ["-0.5", "-2.5"],
                "sign": ["1.5"],
                "shifted": ["-15", "-0.15"],
                "swapped": ["-1.05"],
                "dropped": [],
            },
        ),
        (
            " 1,000 ",
            {
                "off_by_one": ["1001", "999"],
                "sign": ["-1000"],
                "shifted": ["10000", "100"],
                "swapped": ["0100"],
                "dropped": ["100"],
            },
        ),
        ("11", {"off_by_one": ["12", "10"], "swapped": []}),
        ("x+1", {}),
        ("1,00", {}),
        ("1" * 13, {}),
    ],
)
def test_numbers_near_a_gold_one(gold, made):
    found = wrong_numbers(gold)

    assert {kind: found[kind] for kind in made} == made
    assert bool(found) == bool(made)


@pytest.mark.parametrize(
    ("gold", "made"),
    [
        ("Rome", ["Romf", "Rom"]),
        ("B", ["C"]),
        ("Z", ["A"]),
        ("fuzz", ["fuza", "fuz"]),
        ("New Yo", ["New Yp"]),
        ("A1", []),
        ("", []),
    ],
)
def test_words_near_a_gold_one(gold, made):
    assert wrong_words(gold) == made


def test_a_formula_gets_one_more_in_its_first_number():
    assert increment_number(r"\frac{9}{2}") == [r"\frac{10}{2}"]
    assert increment_number("x") == []


@pytest.mark.parametrize(
    ("one", "other", "differ"),
    [
        ("7", "8", True),
        ("7", "7.0", False),
        ("Rome", "rome ", False),
        ("Rome", "Paris", True),
        ("7", "seven", False),  # it may be the same
        (r"\frac12", "0.5", False),
        (r"\frac12", "0.6", True),
        ("7 cm", "8 cm", False),
    ],
)
def test_what_surely_differs(one, other, differ):
    assert surely_differ(one, other) == differ
    assert surely_differ(other, one) == differ


def test_the_value_of_an_answer_is_all_of_it():
    assert value_of("7") == 7
    assert value_of("7 cm") is None
    assert value_of("1" + "0" * 39) == 10**39
    assert value_of("1" + "0" * 40) is None


def test_the_first_answer_that_surely_differs():
    assert different_gold("7", ["7.0", "x", "9", "8"]) == "9"
    assert different_gold("7", ["7.0"]) is None
