"""Further objectives: one override adds them to any recipe, fixed weights train the sum."""

import json

import pytest

from rlcomp.config.compose import compose_config
from rlcomp.config.resolve import plan_of
from rlcomp.errors import ConfigErrors

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

    assert stage.arguments["aggregator"].target.endswith("scalarisation.SmoothChebyshev")


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


@pytest.mark.slow
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


# Two objectives that no answer meets both of, each met by about half of what the warm start leaves.
OPPOSED = (
    "recipe=linear_mo",
    "+objective=format",
    "~objectives.parts.brevity",
    "~objectives.aggregator.weights.brevity",
    "reward=regex",
    "reward.pattern='^[01]'",
    "objectives.parts.format.pattern='^[2-9]'",
    "phases.warm_start.steps=40",
    "phases.warm_start.every.evaluation=null",
    "phases.rl.steps=20",
    "phases.rl.every.evaluation=null",
    "prompts.batch_size=32",
    "group_size=8",
    "learner.optimizer.lr=1e-3",
)


@pytest.mark.slow
def test_the_weight_moves_along_the_front(rlcomp, tmp_path):
    found = {}
    for weight in (0.1, 4.0):
        directory = tmp_path / str(weight)
        words = (f"+objectives.aggregator.weights.format={weight}", f"directory={directory}")
        assert rlcomp(*OPPOSED, *words) == 0
        found[weight] = rl_steps(directory)[-1]

    # Over 10 pairs of runs (9 seeds, 3 engines, 2 sets of CPU instructions) both gaps were mean
    # .93, sd .07, least .73: .5 is 5.8 sd below. Where the weight has no effect they are 0, as
    # they are at learning rate 0.
    assert found[0.1]["reward/correctness"] > found[4.0]["reward/correctness"] + 0.5
    assert found[4.0]["reward/format"] > found[0.1]["reward/format"] + 0.5
