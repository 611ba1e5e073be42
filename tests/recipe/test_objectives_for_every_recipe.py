"""`+objective=...` on the recipes as they are: composed, checked, and the stage built."""

from pathlib import Path

import pytest

from rlcomp.config.build import Builder
from rlcomp.config.compose import compose_config
from rlcomp.config.resolve import plan_of
from rlcomp.errors import ConfigError

CONF = Path(__file__).resolve().parents[2] / "conf"
# There is no reward of an answer in these.
WITHOUT = {"sft", "pretrain", "dpo", "step_dpo"} | {
    "action_grpo",
    "bc",
    "control_ppo",
    "contrastive",
    "dagger",
    "dqn",
    "flow_grpo",
    "her",
    "offline_to_online",
    "hil_serl",
    "rlpd",
    "sac",
    "td3",
    "trpo",
    "distillation",
    "expert_iteration",
    "on_policy_distillation",
    "reward_model",
    "self_distillation",
    "self_rewarding",
    "text_classifier",
}
RECIPES = sorted({file.stem for file in CONF.glob("recipe/*.yaml")} - WITHOUT)
OBJECTIVES = sorted(file.stem for file in CONF.glob("objective/*.yaml"))
ON_TEXT = ["next_segment", "pretrain_zero", "quiet_star", "rlp", "rpt"]
GIVEN = {
    **{recipe: ["base=DIR"] for recipe in ON_TEXT},
    "gsm8k": ["task.path=rows.jsonl"],
    "linear_mo": ["+objectives.aggregator.weights.format=0.3"],
}


def plan(*overrides):
    return plan_of(compose_config([*overrides, "directory=x"]))


@pytest.mark.slow
@pytest.mark.parametrize("recipe", RECIPES)
def test_objectives_can_be_added_and_are_evaluated(recipe):
    made = plan(f"recipe={recipe}", "+objective=[brevity,format]", *GIVEN.get(recipe, []))

    stage = Builder(made, seed=0).build(made.nodes["objectives"])

    assert stage.names == ("correctness", "brevity", "format")
    evaluation = made.nodes["evaluation"]
    assert evaluation.target == "components.evaluator.objectives.ObjectivesEvaluator"
    assert evaluation.arguments["objectives"] is made.nodes["objectives"]
    assert any("evaluation" in phase.every for phase in made.phases.values())


@pytest.mark.slow
@pytest.mark.parametrize("name", OBJECTIVES)
def test_each_objective_alone_is_evaluated(name):
    more = ["objectives.parts.learned.path=x"] if name == "learned" else []

    made = plan(f"+objective={name}", *more)

    assert made.nodes["evaluation"].target.endswith("ObjectivesEvaluator")
    assert list(made.nodes["objectives"].arguments["parts"]) == [name]


def test_an_objective_without_its_weight_is_refused_before_any_step():
    made = plan("recipe=linear_mo", "+objective=format")

    with pytest.raises(ConfigError, match="the objective 'format' is not in weights: add it"):
        Builder(made, seed=0).without_models()


def test_another_evaluator_can_still_be_chosen():
    made = plan("+objective=brevity", "evaluator@evaluation=accuracy")

    assert made.nodes["evaluation"].target == "components.evaluator.accuracy.Accuracy"


def test_the_experiment_s_own_evaluator_is_no_second_choice():
    made = plan("experiment=pareto", "+objective=brevity")

    assert made.nodes["evaluation"].target.endswith("ObjectivesEvaluator")
