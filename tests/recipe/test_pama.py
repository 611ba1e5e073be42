"""Small real runs of PAMA, and what the command line makes of it."""

import pytest

from components.advantage.group_mean import GroupMean
from components.advantage.per_objective import PerObjective
from components.pareto.linear import Linear
from rlcomp.errors import ConfigErrors
from rlcomp.run.check_flow import built_flow
from rlcomp.wiring.compose import compose_config
from rlcomp.wiring.resolve import plan_of

TINY = [
    "recipe=pama",
    "reward.pattern='^.?[0-4]'",
    "model.hidden_size=16",
    "model.intermediate_size=16",
]


@pytest.mark.parametrize("aggregator", ["pama", "chebyshev", "random"])
def test_a_run_continued_in_the_middle_is_bit_identical(
    play, bits, continued, tmp_path, aggregator
):
    words = [*TINY, f"pareto@advantage.aggregator={aggregator}"]
    whole = play(tmp_path / "whole", *words)

    again = continued(whole, tmp_path / "again", 4, *words)

    assert bits(again) == bits(whole)


def test_a_third_objective_is_one_word_and_the_weights_lie_on_the_simplex(play, metrics, tmp_path):
    rows = metrics(play(tmp_path / "run", *TINY, "phases.rl.steps=1", "+objective=format"))

    names = ("correctness", "brevity", "format")
    weights = [rows[-1][f"pareto/advantage/weight/{name}"] for name in names]
    assert min(weights) >= 0
    assert sum(weights) == pytest.approx(1)


@pytest.mark.parametrize(
    ("words", "estimator"),
    [
        ([], "noon.Noon"),
        (["advantage@advantage.advantage=group_mean"], "group_mean.GroupMean"),
        (["advantage@advantage.advantage=noon_group_mean"], "noon.Noon"),
    ],
)
def test_noon_is_switched_off_and_on_in_one_word(words, estimator):
    config = compose_config(["recipe=pama", *words, "directory=x"])

    assert config.advantage.advantage._target_.endswith(estimator)
    assert config.advantage.aggregator.mode == "vector"
    assert plan_of(config).phases


def test_the_form_of_the_paper_is_one_word():
    words = ["recipe=pama", "pareto@advantage.aggregator=pama_scalar", "directory=x"]

    assert compose_config(words).advantage.aggregator.mode == "scalar"


@pytest.mark.parametrize(
    ("kl", "key"), [("in_reward", "'reward'"), ("in_token_reward", "'token_reward'")]
)
def test_what_changes_the_sum_of_the_rewards_would_be_lost_and_is_refused(kl, key):
    config = compose_config(["recipe=pama", f"kl={kl}", "directory=x"])

    with pytest.raises(ConfigErrors, match=f"{key} of kl .* would be lost"):
        plan_of(config)


def test_a_group_of_one_is_refused_for_the_estimator_inside():
    words = ["recipe=pama", "rollout.group_size=1", "directory=x"]

    with pytest.raises(ConfigErrors, match="compares at least 2 answers"):
        plan_of(compose_config(words))


def test_built_or_not_what_it_hands_to_its_estimator_is_not_asked_of_the_batch():
    part = PerObjective(advantage=GroupMean(), aggregator=Linear(weights=None), scale="running")

    wanted = {"rewards", "reward_valid", "response_mask", "group_id"}
    assert built_flow(part).reads == wanted
