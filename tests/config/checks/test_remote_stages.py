import pytest

from rlcomp.config.checks.remote_stages import check_remote, marks, remote_runs
from rlcomp.config.compose import compose_config
from rlcomp.config.finding import messages
from rlcomp.config.plan import read
from rlcomp.config.resolve import plan_of
from rlcomp.errors import ConfigErrors


def plan(*words):
    found, errors = read(compose_config(list(words)))
    assert errors == []
    return found


def test_without_a_cluster_no_stage_is_remote():
    found = plan("recipe=grpo")

    assert remote_runs(found) == []
    assert marks(found) == {}
    assert messages(check_remote(found)) == []


def test_the_collector_of_each_phase_is_remote_by_itself_loops_included():
    assert remote_runs(plan("recipe=dapo", "cluster=local")) == [("rollout",)]
    assert remote_runs(plan("recipe=instruct_gpt", "cluster=ray")) == [
        ("pair_rollout",),
        ("rollout",),
    ]


def test_named_stages_are_remote_together():
    found = plan("recipe=grpo", "cluster=local", "cluster.remote=[rollout, reward]")

    assert remote_runs(found) == [("rollout", "reward")]
    assert messages(check_remote(found)) == []


def test_stages_that_run_elsewhere_say_where():
    words = ("cluster=ray", "cluster.workers=2", "cluster.remote=[rollout, reward]")

    assert marks(plan("recipe=grpo", *words)) == {"rollout": "@ray x2", "reward": "@ray x2"}
    assert marks(plan("recipe=grpo", "cluster=local")) == {"rollout": "@local x1"}


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("recipe=sft",), "no stage of this run rolls prompts out: set cluster=none"),
        (("recipe=control_ppo",), "no stage of this run rolls prompts out"),
        (
            ("recipe=grpo", "cluster.remote=[rolout]"),
            "cluster.remote names 'rolout', which is no stage; did you mean 'rollout'?",
        ),
        (
            ("recipe=grpo", "cluster.remote=[rollout, learner]"),
            "cluster.remote is rollout, learner, but these are not consecutive stages of one list: "
            "the list has rollout, reward,",
        ),
        (
            ("recipe=dapo", "cluster.remote=[rollout, old_log_probs]"),
            "a loop (refill) is remote as a whole or not at all; set cluster.remote=[rollout]",
        ),
        (
            ("recipe=grpo", "cluster.remote=[reward]"),
            "cluster.remote begins with reward, which starts no new batch",
        ),
    ],
)
def test_a_choice_that_cannot_work_is_told_with_the_remedy(words, told):
    (found,) = messages(check_remote(plan(*words, "cluster=local")))

    assert told in found


def test_the_whole_loop_may_be_remote():
    found = plan("recipe=dapo", "cluster=local", "cluster.remote=[refill]")

    assert messages(check_remote(found)) == []


def test_a_plan_is_refused_before_anything_is_built():
    with pytest.raises(ConfigErrors, match=r"cluster.remote begins with learner"):
        plan_of(compose_config(["recipe=grpo", "cluster=local", "cluster.remote=[learner]"]))


def test_no_stages_are_told_by_their_node_and_not_twice():
    assert messages(check_remote(plan("recipe=grpo", "cluster=local", "cluster.remote=[]"))) == []
