"""Small real runs of PAMA, and what the command line makes of it."""

import pytest

from components.advantage.group import GroupMean
from components.advantage.per_objective import PerObjectiveAdvantage
from components.pareto.scalarisation import LinearScalarisation
from rlcomp.config.compose import compose_config
from rlcomp.config.resolve import plan_of
from rlcomp.errors import ConfigError, ConfigErrors
from rlcomp.run.check_flow import built_flow

TINY = [
    "recipe=pama",
    "reward.pattern='^.?[0-4]'",
    "model.hidden_size=16",
    "model.intermediate_size=16",
]


@pytest.mark.slow
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
        ([], "reweighted.Noon"),
        (["advantage@advantage.advantage=group_mean"], "group.GroupMean"),
        (["advantage@advantage.advantage=noon_group_mean"], "reweighted.Noon"),
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
    part = PerObjectiveAdvantage(
        advantage=GroupMean(), aggregator=LinearScalarisation(weights=None), scale="running"
    )

    wanted = {"rewards", "reward_valid", "response_mask", "group_id"}
    assert built_flow(part).reads == wanted


CRITIC = [
    *TINY,
    "recipe=pama_critic",
    "rollout.group_size=1",
    "prompts.batch_size=16",
    "value_learner.num_minibatches=2",
    "phases.value_warm_up.steps=2",
    "phases.value_warm_up.every.checkpoint=1",
    "+objective=format",
]
NAMES = ("correctness", "brevity", "format")


@pytest.fixture(scope="module")
def with_critic(play, tmp_path_factory):
    return play(tmp_path_factory.mktemp("critic") / "run", *CRITIC)


def test_with_a_critic_each_objective_has_a_value_and_one_of_them_the_weight(metrics, with_critic):
    rows = metrics(with_critic)
    last = rows[-1]

    weights = [last[f"pareto/advantage/weight/{name}"] for name in NAMES]
    # Theorem 1: where all mean advantages are positive, all weight is on the smallest.
    assert sorted(weights) == [0, 0, 1]
    values = [[row[f"value/mean/{name}"] for row in rows[2:]] for name in NAMES]
    # A new head says 0, and the warm-up is for the critic alone.
    assert [column[0] for column in values] == [0, 0, 0]
    assert all(column[-1] != 0 for column in values[:2])
    assert values[2][-1] == 0  # no answer has the form yet: its return is 0 as well
    assert ["loss/value" in row for row in rows] == [False] * 2 + [True] * 5
    assert ["loss/policy" in row for row in rows] == [False] * 4 + [True] * 3


@pytest.mark.slow
# In the warm-up of the critic, and behind it; the policy's own takes 2 steps.
@pytest.mark.parametrize("step", [3, 5])
def test_a_run_with_its_critic_is_continued_bit_identically(
    bits, continued, tmp_path, with_critic, step
):
    again = continued(with_critic, tmp_path / "run", step, *CRITIC)

    assert bits(again) == bits(with_critic)


def test_the_critic_of_the_objectives_asks_for_objectives(tmp_path, play):
    words = ["recipe=grpo", "value=objective_critic", "advantage=pama_critic"]

    with pytest.raises(ConfigError, match=r"critic: objectives is a Nothing: .* take value=critic"):
        play(tmp_path / "run", *words)
