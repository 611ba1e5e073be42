import pytest

from rlcomp.config.checks.async_rollout import check_free
from rlcomp.config.checks.remote_stages import check_remote, marks, remote_runs
from rlcomp.config.compose import compose_config
from rlcomp.config.finding import messages
from rlcomp.config.plan import read

FREE = ("cluster=local", "cluster.schedule=free")
UNCORRECTED = "takes tokens of older weights for tokens of now: set recipe=areal_decoupled"


def plan(*words):
    found, errors = read(compose_config(list(words)))
    assert errors == []
    return found


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
    assert messages(check_remote(plan(*words, *FREE))) == []


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("recipe=reinforce",), f"and loss {UNCORRECTED}"),
        (("recipe=grpo", "old_log_probs=recomputed"), f"and loss {UNCORRECTED}"),
        (("recipe=online_dpo",), f"and rollout {UNCORRECTED}"),
        (("recipe=dapo",), "rollout stands in refill, which asks until it has enough"),
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
    (found,) = messages(check_remote(plan(*words, *FREE)))

    assert told in found
    assert "set " in found


def test_either_cluster_may_be_free():
    assert messages(check_remote(plan("recipe=grpo", "cluster=ray", "cluster.schedule=free"))) == []


def test_schedule_fixed_asks_for_none_of_it():
    assert messages(check_free(plan("recipe=reinforce"), [])) == []
    found = plan("recipe=reinforce", "cluster=local")
    assert messages(check_free(found, remote_runs(found))) == []


def test_the_description_says_where_it_runs():
    assert marks(plan("recipe=grpo", *FREE, "cluster.workers=3")) == {"rollout": "@local x3 free"}
