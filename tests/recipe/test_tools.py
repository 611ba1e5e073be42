"""Agents with tools: in runs that are cut short tools are called, and the mechanism pays."""

import pytest

from rlcomp.config.compose import compose_config
from rlcomp.config.resolve import plan_of
from rlcomp.files.json_lines import read_lines
from rlcomp.run.launch import launch

pytestmark = [pytest.mark.no_cover, pytest.mark.slow]

SHORT = [
    "phases.warm_start.steps=150",
    "~phases.warm_start.every",
    "phases.rl.steps=10",
    "~phases.rl.every",
    "demonstrations.batch_size=64",
]
# 16 names: what takes long is to copy one of 144.
FEW = ["task.letters=bcdf", "environment.tools.search.corpus.letters=bcdf"]
LINES = {
    "retool": ["task.operations=1", "phases.rl.steps=20"],
    "retool_program": ["task.longest=1", "phases.rl.steps=20"],
    "search_r1": [*FEW, "task.hops=1"],
    "auto_refine": [*FEW, "task.hops=1", "reward.note_weight=1.0"],
    "tool_star": [*FEW, "task.asked=0.8", "phases.critic.steps=0", "phases.rl2.steps=0"],
}


def run(directory, *words):
    config = compose_config([*words, f"directory={directory}"])
    launch(config, plan_of(config))
    return [row for row in read_lines(directory / "metrics.jsonl") if row["phase"] == "rl"]


@pytest.mark.parametrize("recipe", LINES)
def test_tools_are_called_and_pay(recipe, tmp_path, at_work):
    at_work(recipe, run(tmp_path, f"recipe={recipe}", *SHORT, *LINES[recipe]))


def test_python_may_be_the_calculator(tmp_path, needs):
    needs("strict")
    rows = run(
        tmp_path,
        "recipe=retool",
        "tool@environment.tools.calculator=python",
        "tokenizer=byte",
        *SHORT,
        "phases.rl.steps=2",
        "prompts.batch_size=2",
        "task.operations=1",
        "task.asked=1.0",
    )

    # Demonstrations ask once each, and what they ask is an expression of Python.
    assert rows[-1]["facts/calls_calculator"] > 0.3
    assert rows[-1]["facts/useful_calls"] > 0
    assert [row.get("episode/failed", 0.0) for row in rows] == [0.0, 0.0]


def test_prices_a_budget_and_a_reward_of_parts(tmp_path):
    rows = run(
        tmp_path,
        "recipe=search_r1",
        "phases.warm_start.steps=20",
        *SHORT[1:2],
        "phases.rl.steps=2",
        "~phases.rl.every",
        *FEW,
        "environment.prices={search: 2.0}",
        "environment.budget=3.0",
        "reward=weighted_sum",
        "+reward@reward.parts.answer=short_answer",
        "+reward@reward.parts.cost=fact",
        "reward.parts.cost.fact=cost",
        "reward.weights={answer: 1.0, cost: -0.25}",
        "reward.correct_by=answer",
    )

    for row in rows:
        # Of a budget of 3 one search of 2 is paid.
        assert row["facts/cost"] == pytest.approx(2.0 * row["facts/calls"])
        assert row["facts/calls"] <= 1.0
        paid = row["reward/answer"] - 0.25 * row["reward/cost"]
        assert row["reward/mean"] == pytest.approx(paid, abs=1e-6)
