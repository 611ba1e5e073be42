"""Checks of classes by their source."""

import ast
import textwrap
from pathlib import Path

import pytest

from rlcomp.config.checks.classes import check_return_values, check_reward_functions, return_fault
from rlcomp.config.compose import compose_config
from rlcomp.config.finding import messages
from rlcomp.config.plan import read

HEAD = """
import torch
from rlcomp import Component

class Mine(Component):
    reads = ("reward",)
    writes = ("advantage",)

    def forward(self, batch):
"""
count = iter(range(1000))


@pytest.fixture
def written(tmp_path, monkeypatch):
    """Gives the target of a component with such a body of ``forward``."""
    monkeypatch.syspath_prepend(tmp_path)

    def write(body):
        name = f"returned_{next(count)}"
        (tmp_path / f"{name}.py").write_text(HEAD + textwrap.indent(body, " " * 8))
        return f"{name}.Mine"

    return write


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("batch['advantage'] = batch['reward']", "its forward returns nothing (line 9)"),
        ("return", "its forward returns nothing (line 10)"),
        ("return batch['reward']", "its forward returns batch['reward'] (line 10)"),
        ("above = batch['reward'] - 1\nreturn above", "its forward returns above (line 11)"),
        (
            "a = batch['reward']\nreturn a.unsqueeze(1) * torch.ones(2)",
            "its forward returns a.unsqueeze(1) * torch.ones(2) (line 11)",
        ),
        ("return 1 + (batch['reward'] * 2)", "its forward returns 1 + batch['reward'] * 2"),
        ("x = 1\ny = x\nreturn y", "its forward returns y (line 12)"),
        ("return [batch]", "its forward returns [batch]"),
        ("return batch == 1", "its forward returns batch == 1"),
        ("return batch['reward'].sum().item()", "its forward returns batch['reward'].sum()"),
        ("def inner():\n    return batch\n", "its forward returns nothing (line 9)"),
        ("return batch, 1", "its forward returns (batch, 1) (line 10)"),
        ("return {'advantage': batch['reward']}", "its forward returns {'advantage': batch['rew"),
        ("if batch:\n    return batch\nreturn None", "its forward returns None (line 12)"),
        ("yield batch", "its forward is a generator (line 9)"),
    ],
)
def test_what_is_no_batch_is_told_with_its_line(written, body, told):
    assert str(return_fault(written(body))).startswith(told)


@pytest.mark.parametrize(
    "body",
    [
        "return batch",
        "batch['advantage'] = batch['reward']\nreturn batch",
        "return batch.update({'advantage': batch['reward']})",
        "rows = batch[batch['reward'] > 0]\nreturn rows",
        "return broadcast(batch, batch['reward'])",
        "raise NotImplementedError",
        "found = batch['reward']\nfound = batch\nreturn found",
        "for rows in [batch]:\n    return rows",
        "rows = 1\nfor rows in [batch]:\n    pass\nreturn rows",
        "rows = None\nrows, other = split(batch)\nreturn rows",
        "rows = 0\nrows += batch\nreturn rows",
        "rows = None\nif rows := batch:\n    return rows\nraise ValueError",
        "first, rows = 1, batch\nreturn rows",
        "if batch:\n    return batch\nraise ValueError",
        "return 1 + batch",
        "return batch * 2",
        "return batch[0]",
        "return other['reward']",
        "return batch[name]",
        "rows = rows.to(1)\nreturn rows",
        "def inner():\n    return 1\nreturn batch",
        "return super().forward(batch)",
        "batch = self.other(batch)\nreturn batch",
    ],
)
def test_what_may_be_a_batch_is_let_through(written, body):
    assert return_fault(written(body)) is None


def test_a_run_with_such_a_stage_is_refused(written):
    target = written("return batch['reward']")
    plan, errors = read(compose_config(["recipe=grpo", f"advantage._target_={target}"]))

    assert errors == []
    assert messages(check_return_values(plan)) == [
        f"advantage._target_ is {target}: its forward returns batch['reward'] (line 10); forward "
        "must return the batch: write into it, batch['advantage'] = ..., and return batch"
    ]


def test_every_component_here_is_let_through():
    root = Path(__file__).parents[3]
    targets = [
        f"{'.'.join(file.relative_to(root).with_suffix('').parts)}.{cls.name}"
        for file in (root / "components").rglob("*.py")
        for cls in ast.parse(file.read_text()).body
        if isinstance(cls, ast.ClassDef)
    ]

    assert len(targets) > 100
    assert [target for target in targets if return_fault(target)] == []


@pytest.mark.parametrize(
    ("body", "line"),
    [
        ("reward = float(response == answer)", 1),
        ("if not response:\n        return\n    reward = 1.0", 1),
        ("return float(response == answer)", None),
        ("raise ConnectionError", None),
        ("if response:\n        return 1.0", None),
    ],
)
def test_a_reward_that_never_returns_a_score_is_told(tmp_path, monkeypatch, body, line):
    monkeypatch.syspath_prepend(tmp_path)
    name = f"scoring_{next(count)}"
    (tmp_path / f"{name}.py").write_text(f"def score(response, answer):\n    {body}\n")
    plan, _ = read(compose_config(["reward=function", f"reward.function={name}.score"]))

    told = f"reward.function is '{name}.score': it returns nothing (line {line}), so that every "
    found = messages(check_reward_functions(plan))
    assert [one.startswith(told) for one in found] == ([True] if line else [])
