"""experiments/dpo_likelihood: its page says what its results say."""

import re
from pathlib import Path
from statistics import mean

import pytest

from rlcomp.files.json_lines import read_lines

FOLDER = Path(__file__).resolve().parents[2] / "experiments" / "dpo_likelihood"
PAGE = (FOLDER / "README.md").read_text(encoding="utf-8")
ROWS = read_lines(FOLDER / "results.jsonl")
ARMS = [
    (pairs, loss) for pairs in ("late_digit", "own_samples") for loss in ("dpo", "dpop", "dpo_nll")
]
ARMS += [("late_digit", "nll"), ("fresh_samples", "dpo")]
SEEDS = [str(seed) for seed in range(8)]
START = {row["seed"]: row["accuracy"] for row in ROWS if row["pairs"] == "start"}


def ends(pairs, loss):
    """The evaluations after the last step, one a seed."""
    found = [row for row in ROWS if (row["pairs"], row["loss"]) == (pairs, loss)]
    return [row for row in found if row["step"] == max(row["step"] for row in found)]


@pytest.mark.parametrize(("pairs", "loss"), ARMS)
def test_the_table_has_the_means_of_eight_seeds(pairs, loss):
    rows = ends(pairs, loss)
    line = re.search(rf"^\| {pairs} \| {loss} \| 8 \|(.*)\|$", PAGE, re.MULTILINE)[1]
    told = [float(cell.split()[0]) for cell in line.split("|")]

    means = [
        mean(row[key] for row in rows) for key in ("accuracy", "chosen", "rejected", "preferred")
    ]
    change = mean(row["accuracy"] - START[row["seed"]] for row in rows)
    assert sorted(row["seed"] for row in rows) == SEEDS
    # The page has two places, the results four.
    assert told == pytest.approx([means[0], change, *means[1:]], abs=0.0051)


@pytest.mark.parametrize("pairs", ["late_digit", "own_samples"])
def test_in_every_seed_dpo_loses_what_dpop_gains(pairs):
    for row in ends(pairs, "dpo"):
        assert row["chosen"] < 0
        assert row["accuracy"] < START[row["seed"]]
    for row in ends(pairs, "dpop"):
        assert row["chosen"] > 0
        assert row["accuracy"] > START[row["seed"]]


def test_the_page_shows_its_figure():
    assert "](changes.png)" in PAGE
    assert (FOLDER / "changes.png").is_file()
