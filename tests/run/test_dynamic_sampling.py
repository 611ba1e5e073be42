"""Dynamic sampling and the curriculum as words of the command line."""

import pytest

from rlcomp.cli import describe
from rlcomp.config.compose import compose_config
from rlcomp.config.finding import messages
from rlcomp.config.flow_source import check_flow
from rlcomp.config.plan import read


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
    assert messages(check_flow(refilled)) == []


def test_one_word_chooses_the_sampler_and_what_tells_it():
    plan = planned("curriculum=pass_rate", "dynamic_sampling=refill")

    assert plan.nodes["feedback"].arguments["sampler"] is plan.nodes["prompts"]
    assert messages(check_flow(plan)) == []


def test_feedback_without_a_sampler_that_numbers_its_prompts_is_told_before_the_run():
    (error,) = messages(check_flow(planned("feedback=pass_rate")))

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
    (error,) = messages(check_flow(planned("dynamic_sampling=refill", word)))

    assert told in error


LATE = ("recipe=grpo", "dynamic_sampling=refill_late", "phases.rl.steps=4")


@pytest.fixture(scope="module")
def late(play, tmp_path_factory):
    return play(tmp_path_factory.mktemp("late") / "run", *LATE)


def test_in_the_middle_of_a_phase_it_begins(metrics, late):
    rows = [row for row in metrics(late) if row["phase"] == "rl"]

    assert ["refill/tries" in row for row in rows] == [False, False, True, True]
    # Half of the answers are right, in groups of 4: 1 of 8 groups is all right or all wrong.
    assert min(row["refill/tries"] for row in rows[2:]) >= 1
    assert all("filter/zero_variance_fraction" in row for row in rows[2:])


@pytest.mark.slow
# After the last step before it begins, and after the first one with it; 2 steps warm up.
@pytest.mark.parametrize("step", [4, 5])
def test_a_run_continued_on_either_side_of_that_step_is_bit_identical(
    bits, continued, tmp_path, late, step
):
    assert bits(continued(late, tmp_path / "run", step, *LATE)) == bits(late)


def test_rpt_switches_it_on_where_half_of_the_steps_are_done():
    plan = read(compose_config(["recipe=rpt", "base=x", "phases.rl.steps=1000"]))[0]

    assert "refill" not in stages(plan)
    assert [*plan.phases["rl"].later] == [501]
    assert plan.phases["rl"].later[501][0].path == "refill"


@pytest.mark.parametrize("recipe", ["rlp", "quiet_star", "next_segment"])
def test_what_builds_on_rpt_and_is_rarely_wrong_throughout_does_without(recipe):
    plan = read(compose_config([f"recipe={recipe}", "base=x"]))[0]

    assert plan.phases["rl"].later == {}
    assert "refill" not in stages(plan)


def test_describe_shows_the_two_lists(capsys, monkeypatch):
    monkeypatch.setattr("sys.argv", ["rlcomp-describe", *LATE[:2]])

    describe.main()

    first, second = capsys.readouterr().out.split("phase rl: ")[1:]
    assert first.startswith("steps 1 to 75 of 150")
    assert second.startswith("steps 76 to 150 of 150")
    assert ("Refill" in first, "Refill" in second) == (False, True)
