"""Further objectives: one override adds them to any recipe, fixed weights train the sum."""

import json

import pytest

from rlcomp.errors import ConfigErrors
from rlcomp.wiring.compose import compose_config
from rlcomp.wiring.resolve import plan_of

BOTH = "+objective=[brevity,format]"
TINY = (
    "task.length=3",
    "model.hidden_size=16",
    "model.intermediate_size=16",
    "phases.warm_start.steps=2",
    "phases.rl.steps=2",
    "prompts.batch_size=4",
    "group_size=4",
    "evaluation.num_prompts=8",
    "demonstrations.batch_size=8",
    "learner.num_minibatches=1",
    # Half of all answers are right, so that groups vary.
    "reward=regex",
    "reward.pattern='^[0-4]'",
)


def plan(*overrides):
    return plan_of(compose_config([*overrides, "directory=x"]))


def test_the_aggregator_is_an_option_of_its_own():
    stage = plan(BOTH, "pareto@objectives.aggregator=smooth_chebyshev").nodes["objectives"]

    assert stage.arguments["aggregator"].target.endswith("smooth_chebyshev.SmoothChebyshev")


def test_an_advantage_that_reads_no_outcome_would_lose_the_objectives():
    with pytest.raises(ConfigErrors, match=r"'reward' or 'rewards' of objectives .* would be lost"):
        plan("+objective=brevity", "reward=steps", "reward.step.function=x.y", "advantage=process")


@pytest.mark.parametrize(
    "advantage",
    ["advantage=per_objective", "advantage=gdpo advantage.weights={correctness:1.0,brevity:0.5}"],
)
def test_an_advantage_may_read_the_objectives_instead_of_their_sum(advantage):
    assert plan("+objective=brevity", *advantage.split()).phases


def rl_steps(directory):
    lines = (directory / "metrics.jsonl").read_text().splitlines()
    return [row for row in map(json.loads, lines) if row.get("phase") == "rl"]


@pytest.mark.parametrize("recipe", ["dapo", "ppo", "remax"])
def test_a_recipe_runs_with_objectives_and_logs_each(rlcomp, tmp_path, recipe):
    group = "group_size=4" if recipe == "dapo" else "group_size=1"

    assert rlcomp(f"recipe={recipe}", BOTH, *TINY, group, f"directory={tmp_path}") == 0

    rows = rl_steps(tmp_path)
    assert rows
    for name in ("correctness", "brevity", "format"):
        assert all(f"reward/{name}" in row for row in rows)
        assert all(row[f"pareto/reward/weight/{name}"] == pytest.approx(1 / 3) for row in rows)


def test_the_reward_is_the_weighted_sum_of_what_is_logged(rlcomp, tmp_path):
    assert rlcomp("recipe=linear_mo", *TINY, f"directory={tmp_path}") == 0

    for row in rl_steps(tmp_path):
        wanted = row["reward/correctness"] + 0.5 * row["reward/brevity"]
        assert row["reward/weighted"] == pytest.approx(wanted, abs=1e-6)


@pytest.mark.slow
def test_the_weight_moves_along_the_front(rlcomp, tmp_path):
    # Six digits cost 6/9 of brevity: at weight 4 that is more than being right is worth.
    found = {}
    for weight in (0.1, 4.0):
        directory = tmp_path / str(weight)
        words = (f"objectives.aggregator.weights.brevity={weight}", "phases.rl.steps=40")
        assert rlcomp("recipe=linear_mo", *words, f"directory={directory}") == 0
        found[weight] = rl_steps(directory)[-1]

    assert found[0.1]["reward/correctness"] > found[4.0]["reward/correctness"] + 0.1
    assert found[0.1]["reward/brevity"] + 0.1 < found[4.0]["reward/brevity"]
