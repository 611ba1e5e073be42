"""The table of mechanisms: every recipe is in it, and the numbers found keep to their bounds."""

import math
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = runpy.run_path(str(ROOT / "docs" / "mechanisms.py"))
CLAIMS = SCRIPT["CLAIMS"]
ROWS = [
    {"phase": "warm_start", "a/b": 9.0, "a/c": 5.0},
    {"phase": "rl", "a/b": 1.0},
    {"phase": "rl", "a/b": 4.0, "a/c": 2.0},
]


def test_every_recipe_says_what_shows_its_mechanism():
    assert sorted(CLAIMS) == sorted(file.stem for file in ROOT.glob("conf/recipe/*.yaml"))


@pytest.mark.parametrize("recipe", CLAIMS)
def test_the_number_on_the_page_is_within_the_bounds_beside_it(recipe):
    assert CLAIMS[recipe]
    for claim in CLAIMS[recipe]:
        assert {"above", "below"} & set(claim)
        assert SCRIPT["holds"](claim, claim["found"])


@pytest.mark.parametrize(
    ("metric", "of", "number"),
    [
        ("a/b", {}, 2.5),  # of the last phase alone
        ("a/b", {"of": "last"}, 4.0),
        ("a/c", {"of": "change"}, -3.0),  # from the warm start on
    ],
)
def test_the_number_of_a_claim(metric, of, number):
    assert SCRIPT["number"]({"metric": metric, **of}, ROWS) == number


def test_a_bound_is_outside_and_what_was_not_recorded_shows_nothing():
    claim = {"metric": "a/d", "above": 1.0, "below": 3.0}

    found = [SCRIPT["holds"](claim, value) for value in (1.0, 2.0, 3.0)]
    assert found == [False, True, False]
    assert math.isnan(SCRIPT["number"](claim, ROWS))
    assert not SCRIPT["holds"]({"metric": "a/d"}, math.nan)
