"""Proofs that a search finds, by hand."""

import pytest

from components.worlds.tactics.formula import parse
from components.worlds.tactics.natural_deduction import Goal
from components.worlds.tactics.search import prove


@pytest.mark.parametrize(
    ("formula", "script"),
    [
        ("¬p→p→q", ["intro", "intro", "exfalso", "apply h0", "exact h1"]),
        ("p→¬¬p", ["intro", "intro", "apply h1", "exact h0"]),
        ("p→q∨p", ["intro", "right", "exact h0"]),
        ("p∧q→p", ["intro", "cases h0", "exact h0"]),
        ("p→p∧p", ["intro", "split", "exact h0", "exact h0"]),
        ("¬¬p→p", None),
    ],
)
def test_scripts_by_hand(formula, script):
    assert prove(Goal((), parse(formula))) == script
