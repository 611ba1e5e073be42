"""The keyboard of docs/how_to/control.md, at a terminal of its own."""

import os
import pty
import re
import sys
from pathlib import Path

import pytest
import torch

PAGE = Path(__file__).resolve().parents[2] / "docs" / "how_to" / "control.md"


@pytest.fixture
def module():
    page = PAGE.read_text(encoding="utf-8")
    made = {}
    exec(re.search(r"^```python\n(# keyboard\.py\n.*?)^```$", page, re.M | re.S)[1], made)
    return made


@pytest.fixture
def terminal(monkeypatch):
    ours, theirs = pty.openpty()
    with os.fdopen(theirs, buffering=1) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        yield lambda keys: os.write(ours, keys)
    os.close(ours)


def test_keys_are_actions_of_the_first_copy_and_none_lets_the_policy_act(module, terminal, capsys):
    keyboard, point = module["Keyboard"](seconds=0.01), torch.tensor([0.0, -1.0])

    assert keyboard(0, point, None) is None
    terminal(b"d")
    assert keyboard(1, point, None) is None
    assert keyboard(0, point, None) == [1.0, 0.0]
    terminal(b"x")
    assert keyboard(0, point, None) is None
    assert capsys.readouterr().out.count("o") == 3


def test_the_picture_shows_point_wall_and_goal(module):
    rows = module["picture"](-0.75, -0.5).split("\n")

    # x = -.75 is column 5 of 41, y = -.5 half way down the lower half; the wall ends at x = .5.
    assert rows[2][5] == "G"
    assert rows[8][5] == "o"
    assert rows[5] == "=" * 31 + " " * 10


def test_without_a_terminal_nobody_is_there(module):
    assert module["Keyboard"]()(0, torch.zeros(2), None) is None
