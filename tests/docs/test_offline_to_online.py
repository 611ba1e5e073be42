"""experiments/offline_to_online: its page says what its results say."""

import re
import runpy
from pathlib import Path
from statistics import mean

import pytest

from rlcomp.files.json_lines import read_lines

FOLDER = Path(__file__).resolve().parents[2] / "experiments" / "offline_to_online"
PAGE = (FOLDER / "README.md").read_text(encoding="utf-8")
ROWS = read_lines(FOLDER / "results.jsonl")
ARMS = runpy.run_path(str(FOLDER / "tables.py"))["ARMS"]
ONLINE = ("iql", "td3_bc", "cql")


def ends(arm, phase):
    """Of each seed the mean of the last three evaluations."""
    found = [row for row in ROWS if row["arm"] == arm]
    assert [row["seed"] for row in found] == ["0", "1", "2"]
    return [mean(value for _, value in row[phase][-3:]) for row in found]


def numbers(cell):
    """The numbers of a cell without its interval."""
    return [float(each) for each in cell.partition("(")[0].split(",")]


@pytest.mark.parametrize("arm", ARMS)
def test_the_table_has_the_ends_of_three_seeds(arm):
    line = re.search(rf"^\| {re.escape(ARMS[arm])} \|(.*)\|$", PAGE, re.MULTILINE)[1]
    seeds, middle, apart, then, later, _ = (cell.strip() for cell in line.split("|"))
    offline, cloned = ends(arm, "offline"), ends("bc", "offline")

    assert numbers(seeds) == pytest.approx(offline, abs=0.51)
    assert numbers(middle) == pytest.approx([mean(offline)], abs=0.51)
    if arm != "bc":
        assert numbers(apart) == pytest.approx([mean(offline) - mean(cloned)], abs=0.51)
    if arm in ONLINE:
        assert numbers(then) == pytest.approx(ends(arm, "online"), abs=0.51)
        assert numbers(later) == pytest.approx([mean(ends(arm, "online"))], abs=0.51)
    else:
        assert (then, later) == ("", "")


def test_every_curve_has_all_its_evaluations():
    for row in ROWS:
        assert [updates for updates, _ in row["offline"]] == list(range(400, 4801, 400))
        there = list(range(320, 1921, 320)) if row["arm"] in ONLINE else []
        assert [updates for updates, _ in row["online"]] == there


def test_the_page_shows_its_figure():
    assert "](curves.png)" in PAGE
    assert (FOLDER / "curves.png").is_file()
