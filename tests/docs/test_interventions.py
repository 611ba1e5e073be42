"""experiments/interventions: its page says what its results say."""

import re
import runpy
from pathlib import Path
from statistics import mean

import pytest

from rlcomp.files.json_lines import read_lines

FOLDER = Path(__file__).resolve().parents[2] / "experiments" / "interventions"
PAGE = (FOLDER / "README.md").read_text(encoding="utf-8")
ROWS = read_lines(FOLDER / "results.jsonl")
SCRIPT = runpy.run_path(str(FOLDER / "tables.py"))
ARMS, first_of_three = SCRIPT["ARMS"], SCRIPT["first_of_three"]


@pytest.mark.parametrize(
    ("values", "first"),
    [
        ([1, 1, 1], 1),
        ([0, 1, 1, 0, 1, 1, 1, 0], 5),
        ([1, 1, 0, 1, 1], None),
        ([0.5, 1, 1], None),
        ([], None),
    ],
)
def test_a_run_counts_from_the_first_of_three_successes_in_a_row(values, first):
    assert first_of_three(values) == first


@pytest.mark.parametrize("arm", ARMS)
def test_the_table_has_five_seeds(arm):
    own = [row for row in ROWS if row["arm"] == arm]
    line = re.search(rf"^\| {re.escape(ARMS[arm])} \|(.*)\|$", PAGE, re.MULTILINE)[1]
    rounds, apart, height, guided, _ = (cell.strip() for cell in line.split("|"))

    assert [row["seed"] for row in own] == ["0", "1", "2", "3", "4"]
    assert {len(row["success"]) for row in own} == {24}
    assert rounds.split() == [str(first_of_three(row["success"]) or "-") for row in own]
    assert float(height.split()[0]) == pytest.approx(
        mean(mean(row["success"]) for row in own), abs=0.0051
    )
    assert [int(steps) for steps in guided.split()] == [row["guided"] for row in own]
    if apart:
        plain = [row for row in ROWS if row["arm"] == "rlpd"]
        later = mean(
            first_of_three(row["success"]) - first_of_three(other["success"])
            for row, other in zip(own, plain, strict=True)
        )
        assert float(apart.split()[0]) == pytest.approx(later, abs=0.051)


def test_only_who_has_demonstrations_arrives():
    for row in ROWS:
        assert (first_of_three(row["success"]) is None) == (row["arm"] == "sac")


def test_the_page_shows_its_figure():
    assert "](curves.png)" in PAGE
    assert (FOLDER / "curves.png").is_file()
