"""Checks of runs on workers of a cluster and on ranks of torchrun."""

import pytest

from rlcomp.config.checks.distributed import (
    check_ranks,
    check_remote_stages,
    describe_ranks,
    remote_runs,
    shared_learners,
    worker_labels,
)
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
    assert worker_labels(found) == {}
    assert messages(check_remote_stages(found)) == []


def test_the_collector_of_each_phase_is_remote_by_itself_loops_included():
    assert remote_runs(plan("recipe=dapo", "cluster=local")) == [("rollout",)]
    assert remote_runs(plan("recipe=instruct_gpt", "cluster=ray")) == [
        ("pair_rollout",),
        ("rollout",),
    ]


def test_named_stages_are_remote_together():
    found = plan("recipe=grpo", "cluster=local", "cluster.remote=[rollout, reward]")

    assert remote_runs(found) == [("rollout", "reward")]
    assert messages(check_remote_stages(found)) == []


def test_stages_that_run_elsewhere_say_where():
    words = ("cluster=ray", "cluster.workers=2", "cluster.remote=[rollout, reward]")

    assert worker_labels(plan("recipe=grpo", *words)) == {"rollout": "@ray x2", "reward": "@ray x2"}
    assert worker_labels(plan("recipe=grpo", "cluster=local")) == {"rollout": "@local x1"}


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
    (found,) = messages(check_remote_stages(plan(*words, "cluster=local")))

    assert told in found


def test_the_whole_loop_may_be_remote():
    found = plan("recipe=dapo", "cluster=local", "cluster.remote=[refill]")

    assert messages(check_remote_stages(found)) == []


def test_a_plan_is_refused_before_anything_is_built():
    with pytest.raises(ConfigErrors, match=r"cluster.remote begins with learner"):
        plan_of(compose_config(["recipe=grpo", "cluster=local", "cluster.remote=[learner]"]))


def test_no_stages_are_told_by_their_node_and_not_twice():
    assert (
        messages(check_remote_stages(plan("recipe=grpo", "cluster=local", "cluster.remote=[]")))
        == []
    )


FREE = ("cluster=local", "cluster.schedule=free")
UNCORRECTED = "treats tokens of older weights as on-policy: set recipe=areal_decoupled"


@pytest.mark.parametrize(
    "words",
    [
        ("recipe=grpo",),
        ("recipe=grpo", "loss/weight=[tis]"),
        ("recipe=areal_decoupled",),
        ("recipe=ppo",),
        ("recipe=grpo", "old_log_probs=recomputed", "loss/weight=[tis]"),
        ("recipe=dapo", "dynamic_sampling=none"),
    ],
)
def test_losses_that_weigh_by_the_log_probs_of_the_draw_may_be_free(words):
    assert messages(check_remote_stages(plan(*words, *FREE))) == []


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("recipe=reinforce",), f"and loss {UNCORRECTED}"),
        (("recipe=grpo", "old_log_probs=recomputed"), f"and loss {UNCORRECTED}"),
        (("recipe=online_dpo",), f"and rollout {UNCORRECTED}"),
        (("recipe=dapo",), "rollout is inside refill, which samples until it has enough"),
        (
            ("recipe=grpo", "collector@rollout=greedy_baseline"),
            "(GreedyBaselineCollector) does not refill decode slots: set collector@rollout=group",
        ),
        (
            ("recipe=areal_decoupled", "collector@rollout.collector=greedy_baseline"),
            "rollout (GreedyBaselineCollector) does not refill decode slots",
        ),
        (
            ("recipe=grpo", "cluster.remote=[rollout, reward]"),
            "cluster.remote is rollout, reward: answer groups",
        ),
        (
            ("recipe=areal_decoupled", "sampler_engine=transformers_batching"),
            "sampler_engine decodes: only our own decode loop takes new weights between steps",
        ),
        (
            ("recipe=keep_routing",),
            "keep_routing is rollout: no routes are recorded of rows in refilled decode slots",
        ),
    ],
)
def test_what_cannot_work_is_told_by_name_with_the_remedy(words, told):
    (found,) = messages(check_remote_stages(plan(*words, *FREE)))

    assert told in found
    assert "set " in found


def test_either_cluster_may_be_free():
    assert (
        messages(check_remote_stages(plan("recipe=grpo", "cluster=ray", "cluster.schedule=free")))
        == []
    )


def test_schedule_fixed_asks_for_none_of_it():
    assert messages(check_remote_stages(plan("recipe=reinforce"))) == []
    found = plan("recipe=reinforce", "cluster=local")
    assert messages(check_remote_stages(found)) == []


def test_the_description_says_where_it_runs():
    assert worker_labels(plan("recipe=grpo", *FREE, "cluster.workers=3")) == {
        "rollout": "@local x3 free"
    }


def test_one_process_has_nothing_to_share():
    assert messages(check_ranks(plan("recipe=trpo"))) == []
    assert describe_ranks(plan("recipe=grpo")) == []


@pytest.mark.parametrize("word", ["replicate", "shard"])
def test_learners_of_tokens_are_shared(word):
    found = plan("recipe=ppo", f"parallel={word}")

    assert messages(check_ranks(found)) == []
    names = {node.path for node in shared_learners(found)}
    assert names == {"learner", "sft_learner", "value_learner"}
    (told,) = describe_ranks(found)
    assert told.startswith(f"ranks of torchrun ({word.capitalize()}): rank 0 runs all stages; ")
    assert all(name in told for name in names)


@pytest.mark.parametrize("recipe", ["trpo", "sac", "dqn", "td3", "control_ppo"])
def test_control_is_refused(recipe):
    (told,) = messages(check_ranks(plan(f"recipe={recipe}", "parallel=replicate")))

    assert told.startswith("parallel (Replicate): no learner of this recipe reads rows of tokens ")
    assert told.endswith(
        "use parallel=none, without torchrun; several seeds at once: rlcomp -m seed=0,1"
    )


@pytest.mark.parametrize("words", [["parallel=shard"], ["parallel=hybrid", "parallel.parts=2"]])
def test_parts_of_gradients_cannot_be_compared(words):
    told = messages(check_ranks(plan("recipe=upgrad", *words)))

    assert any(
        line.startswith("learner (PerObjectiveLearner) compares whole gradients of objectives, ")
        and line.endswith(": use parallel=replicate")
        for line in told
    )
    assert messages(check_ranks(plan("recipe=upgrad", "parallel=replicate"))) == []


def test_adapters_are_not_put_into_parts():
    told = messages(check_ranks(plan("recipe=grpo", "adapter=lora", "parallel=shard")))

    assert "learner trains adapters (" in " ".join(told)
    assert all(line.endswith("use parallel=replicate, or adapter=none") for line in told)
    assert messages(check_ranks(plan("recipe=grpo", "adapter=lora", "parallel=replicate"))) == []
