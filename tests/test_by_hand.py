"""The demo composed in Python gives the numbers of the command line, bit for bit."""

import runpy
from pathlib import Path

import pytest

from rlcomp.files.json_lines import read_lines

SCRIPT = Path(__file__).parents[1] / "experiments" / "by_hand" / "sort_digits.py"


def numbers(directory):
    rows = read_lines(directory / "metrics.jsonl")
    return [{k: v for k, v in row.items() if not k.startswith("time/")} for row in rows]


@pytest.mark.slow
def test_by_hand_equals_the_command_line(rlcomp, tmp_path, monkeypatch):
    steps = ["phases.warm_start.steps=30", "phases.rl.steps=3"]
    assert rlcomp("seed=5", f"directory={tmp_path / 'words'}", *steps) == 0

    monkeypatch.setattr("sys.argv", [str(SCRIPT), str(tmp_path / "hand"), "5", "30", "3"])
    runpy.run_path(str(SCRIPT), run_name="__main__")

    assert numbers(tmp_path / "hand") == numbers(tmp_path / "words")
    assert len(numbers(tmp_path / "hand")) == 33


def test_by_hand_takes_at_most_sixty_lines():
    assert len(SCRIPT.read_text().splitlines()) <= 60
