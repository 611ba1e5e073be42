"""Dynamic sampling and the curriculum as words of the command line."""

import pytest

from rlcomp.wiring.compose import compose_config
from rlcomp.wiring.flow_source import check_flow
from rlcomp.wiring.plan import read


def planned(*words):
    plan, errors = read(compose_config(["recipe=grpo", *words]))
    assert errors == []
    return plan


def stages(plan):
    return [stage.path for stage in plan.phases["rl"].stages]


def test_none_leaves_the_stages_as_they_are():
    assert stages(planned("dynamic_sampling=none", "curriculum=none")) == stages(planned())


def test_one_word_bundles_what_makes_rows_into_a_refill_and_keeps_the_rest():
    refilled, plain = planned("dynamic_sampling=refill"), stages(planned())

    inside = [stage.path for stage in refilled.nodes["refill"].arguments["stages"]]

    assert inside[-1] == "varied"
    assert inside[:-1] + stages(refilled)[1:] == plain
    assert check_flow(refilled) == []


def test_one_word_chooses_the_sampler_and_what_tells_it():
    plan = planned("curriculum=pass_rate", "dynamic_sampling=refill")

    assert plan.nodes["feedback"].arguments["sampler"] is plan.nodes["prompts"]
    assert check_flow(plan) == []


def test_feedback_without_a_sampler_that_numbers_its_prompts_is_told_before_the_run():
    (error,) = check_flow(planned("feedback=pass_rate"))

    assert "stage feedback (PassRate) reads 'example_id'" in error
    assert "choose sampler@prompts=curriculum" in error


@pytest.mark.parametrize(
    ("word", "told"),
    [
        ("refill.rows=24", "refill.rows is 24, no multiple of group_size 16"),
        ("learner.num_minibatches=5000", "a batch has only 1024 rows"),
    ],
)
def test_the_rows_of_a_refill_are_known_before_the_run(word, told):
    (error,) = check_flow(planned("dynamic_sampling=refill", word))

    assert told in error
