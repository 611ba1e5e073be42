"""experiments/judge_bias: its claims in a small form, and its table."""

import re
import runpy
from pathlib import Path

import pytest
import torch

FOLDER = Path(__file__).resolve().parents[2] / "experiments" / "judge_bias"
PAGE = (FOLDER / "README.md").read_text(encoding="utf-8")
SCRIPT = runpy.run_path(str(FOLDER / "power.py"))
ROWS = {
    name.strip(): [float(cell) for cell in cells.split("|")]
    for name, cells in re.findall(r"^\| (\w+, [^|]*)\|(.*)\|$", PAGE, re.MULTILINE)
}
AT = {size: place for place, size in enumerate(SCRIPT["SIZES"])}


def test_four_hundred_pairs_find_a_bias_of_length_and_none_where_there_is_none():
    generator = torch.Generator().manual_seed(7)
    runs = [SCRIPT["alarms"](400, {}, generator) for _ in range(100)]
    planted = [SCRIPT["alarms"](400, {"length": 0.4}, generator) for _ in range(20)]

    assert sum(run["length"] for run in runs) <= 11  # of 100 at 5 %: 11 is 2.75 sd above
    assert sum(run["naive"] for run in runs) > 50
    assert all(run["length"] for run in planted)


@pytest.mark.parametrize("bias", SCRIPT["BIASES"])
def test_the_report_asks_for_the_pairs_that_the_table_needs(bias):
    from rlcomp.report.judge import NEEDED

    for shift, strength in ((0.10, 0.4), (0.05, 0.2)):
        powers = ROWS[f"{bias}, b = {strength}"]
        needed = NEEDED[shift][bias]
        assert powers[AT[needed]] >= 0.9
        assert powers[AT[needed] - 1] < 0.9


def test_the_page_shows_its_figure_and_all_of_its_rows():
    assert len(ROWS) == 4 + 9
    assert "](power.png)" in PAGE
    assert (FOLDER / "power.png").is_file()
