"""The tutorial's cells run one after the other; what it claims is asserted in it."""

import re
from pathlib import Path

import pytest

TUTORIAL = Path(__file__).resolve().parents[2] / "docs" / "tutorial.py"
CELLS = re.split(r"^(?=# %%)", TUTORIAL.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]


@pytest.mark.slow
def test_every_cell_runs(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    names = {"__name__": "tutorial"}

    for number, cell in enumerate(CELLS):
        exec(compile(cell, f"tutorial.py, cell {number}", "exec"), names)

    assert list(tmp_path.glob("rlcomp-tutorial-*/reward.png"))


@pytest.mark.parametrize("cell", [c for c in CELLS if c.startswith("# %% [markdown]")])
def test_a_markdown_cell_holds_comments_only(cell):
    assert all(line.startswith("#") for line in cell.splitlines() if line)
