"""Every recipe of several objectives takes one more, and another aggregator, in a word each."""

import json

import pytest
from hydra.utils import instantiate

from rlcomp.config.compose import compose_config
from rlcomp.config.options import config_directory
from rlcomp.config.resolve import plan_of
from rlcomp.run.launch import launch

# What builds on linear_mo, which gives each objective a weight.
RECIPES = sorted(
    file.stem
    for file in (config_directory() / "recipe").glob("*.yaml")
    if "\n  - linear_mo\n" in file.read_text()
)
TINY = [
    "model.hidden_size=16",
    "model.intermediate_size=16",
    "phases.warm_start.steps=1",
    "phases.warm_start.every.evaluation=null",
    "phases.rl.steps=1",
    "prompts.batch_size=2",
    "group_size=4",
    "evaluation.num_prompts=2",
    "demonstrations.batch_size=4",
]
WEIGHTS = "objectives.aggregator.weights"


def aggregator_of(*words):
    config = compose_config(["recipe=linear_mo", *words, "directory=x"])
    assert plan_of(config).phases
    return instantiate(config.objectives.aggregator)


def test_the_recipes_of_several_objectives_are_found():
    assert {"conditioned", "pama", "upgrad"} <= set(RECIPES)


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_third_objective_is_one_word(tmp_path, recipe):
    config = compose_config(
        [f"recipe={recipe}", "+objective=format", *TINY, f"directory={tmp_path}"]
    )
    launch(config, plan_of(config))

    rows = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    for name in ("correctness", "brevity", "format"):
        assert rows[-1][f"pareto/reward/weight/{name}"] == pytest.approx(1 / 3)


def test_fixed_weights_are_set_by_name():
    assert aggregator_of().weights == {"correctness": 1.0, "brevity": 0.5}
    assert aggregator_of(f"{WEIGHTS}.brevity=0.1").weights == {"correctness": 1.0, "brevity": 0.1}
    third = aggregator_of("+objective=format", f"+{WEIGHTS}.format=0.3").weights
    assert third == {"correctness": 1.0, "brevity": 0.5, "format": 0.3}


@pytest.mark.parametrize(
    ("name", "kind"),
    [("pama", "PAMA"), ("chebyshev", "Chebyshev"), ("linear", "LinearScalarisation")],
)
def test_another_aggregator_of_the_rewards_is_one_word(name, kind):
    aggregator = aggregator_of(f"pareto@objectives.aggregator={name}")

    assert type(aggregator).__name__ == kind
    # Those of linear_mo are gone.
    assert getattr(aggregator, "weights", None) is None
