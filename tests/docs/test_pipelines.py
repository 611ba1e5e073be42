"""experiments/pipelines: its page says what its results say."""

import runpy
from pathlib import Path
from statistics import mean

import pytest

from rlcomp.files.json_lines import read_lines

EXPERIMENTS = Path(__file__).resolve().parents[2] / "experiments"
PIPELINES = read_lines(EXPERIMENTS / "pipelines" / "results.jsonl")


def test_the_table_is_that_of_the_results():
    folder = EXPERIMENTS / "pipelines"
    page = (folder / "README.md").read_text(encoding="utf-8")

    table = runpy.run_path(str(folder / "curves.py"))["table"](PIPELINES)

    assert table in page


@pytest.mark.parametrize("recipe", sorted({row["recipe"] for row in PIPELINES}))
def test_every_pipeline_ends_better_than_it_began_in_every_seed(recipe):
    runs = {}
    for row in PIPELINES:
        if row["recipe"] == recipe:
            runs.setdefault(row["seed"], []).append(row["sampled"])

    assert sorted(runs) == ["0", "1", "2"]
    assert all(values[-1] > values[0] for values in runs.values())
    assert mean(values[-1] - values[0] for values in runs.values()) > 0.1


def test_the_page_shows_its_figure():
    page = (EXPERIMENTS / "pipelines" / "README.md").read_text(encoding="utf-8")

    assert "](curves.png)" in page
    assert (EXPERIMENTS / "pipelines" / "curves.png").is_file()
