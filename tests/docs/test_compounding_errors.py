"""experiments/compounding_errors: its page says what its results say."""

import re
import runpy
from pathlib import Path

import numpy as np
import pytest

from rlcomp.files.json_lines import read_lines

FOLDER = Path(__file__).resolve().parents[2] / "experiments" / "compounding_errors"
PAGE = (FOLDER / "README.md").read_text(encoding="utf-8")
ROWS = read_lines(FOLDER / "results.jsonl")
ARMS = runpy.run_path(str(FOLDER / "tables.py"))["ARMS"]
AT = sorted({(row["arm"], row["steps"]) for row in ROWS})
LAST = {arm: max(steps for each, steps in AT if each == arm) for arm in ARMS}


def costs(arm, steps):
    """A row a seed, a column a horizon."""
    found = [row for row in ROWS if (row["arm"], row["steps"]) == (arm, steps)]
    assert sorted(row["seed"] for row in found) == ["0", "1", "2", "3", "4"]
    return np.array([row["cost"] for row in found])


@pytest.mark.parametrize(("arm", "steps"), AT)
def test_the_table_has_the_means_of_five_seeds(arm, steps):
    line = re.search(rf"^\| {ARMS[arm]} \| {steps:,} \| 5 \|(.*)\|$", PAGE, re.MULTILINE)[1]
    *cells, ends, _ = (cell.strip() for cell in line.split("|"))
    mean, last = costs(arm, steps).mean(0), costs(arm, steps)[:, -1]

    # The page has one place below ten and none above.
    assert [float(cell) for cell in cells] == pytest.approx(mean, abs=0.51)
    small = mean < 10
    assert np.array(cells, dtype=float)[small] == pytest.approx(mean[small], abs=0.051)
    assert [float(end) for end in ends.split(" to ")] == pytest.approx(
        [last.min(), last.max()], abs=0.51
    )


def test_every_row_of_the_table_is_one_of_the_results():
    told = re.findall(rf"^\| ({'|'.join(ARMS.values())}) \| ([\d,]+) \|", PAGE, re.MULTILINE)

    assert len(told) == len(AT)
    assert {(name, int(steps.replace(",", ""))) for name, steps in told} == {
        (ARMS[arm], steps) for arm, steps in AT
    }


def test_dagger_and_rewards_stay_on_the_road_and_cloning_does_not():
    ends = {arm: costs(arm, steps)[:, -1] for arm, steps in LAST.items()}

    assert ends["dagger"].max() <= 1
    assert ends["sac"].max() <= 1
    assert ends["bc"].mean() >= 100
    assert ends["bc_more"].mean() >= 100
    assert LAST["bc_more"] == LAST["dagger"]


def test_in_three_seeds_a_cloned_policy_is_lost_from_200_steps_on():
    found = costs("bc", LAST["bc"])
    between = found[:, -1] - found[:, -3]

    assert sum(np.isclose(between, 600)) == 3


def test_the_page_shows_its_figure():
    assert "](costs.png)" in PAGE
    assert (FOLDER / "costs.png").is_file()
