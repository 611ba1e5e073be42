"""experiments/over_optimisation: its page says what its results say."""

import re
from pathlib import Path
from statistics import mean

import pytest

from rlcomp.io.json_lines import read_lines

FOLDER = Path(__file__).resolve().parents[2] / "experiments" / "over_optimisation"
PAGE = (FOLDER / "README.md").read_text(encoding="utf-8")
ROWS = read_lines(FOLDER / "results.jsonl")


@pytest.mark.parametrize("members", ["one", "four"])
@pytest.mark.parametrize("coef", ["0", "0.03", "0.1"])
def test_the_table_has_the_means_of_five_seeds(members, coef):
    rows = [row for row in ROWS if (row["members"], row["coef"]) == (members, coef)]
    line = re.search(rf"^\| {members} \| {coef} \| 5 \|(.*)\|$", PAGE, re.MULTILINE)[1]
    told = [float(cell.split()[0]) for cell in line.split("|")]
    by_step = [mean(r["gold"] for r in rows if r["step"] == step) for step in range(1, 41)]

    assert len(rows) == 5 * 40
    wanted = [by_step[0], max(by_step), mean(by_step[-5:])]
    assert told[:3] == pytest.approx(wanted, abs=0.0051)
    assert told[4] == by_step.index(max(by_step)) + 1
