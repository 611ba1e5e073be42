"""Recipes whose rollouts are made by workers: the same run, to the bit, also when one is killed."""

import signal
import time

import pytest
import workers
from attempts import DONE, INTERRUPTED, attempt, left
from page import rows_of
from recipes import TEXT, TINY, planned, pretrain

from rlcomp.config.compose import compose_config
from rlcomp.config.resolve import plan_of
from rlcomp.files.json_lines import read_lines
from rlcomp.run.launch import launch

# Everything but processes: parts are pickled, weights published, requests answered late.
INSIDE = ("cluster=local", "cluster._target_=rlcomp.testing.cluster.InProcessCluster")
DELAYED = ("collector@rollout=delayed",)
# What is run, and what delays its rollouts.
CASES = {
    "grpo": (("recipe=grpo", *TINY), DELAYED),
    "dapo, refilled": (("recipe=dapo", *TINY), DELAYED),
    "ppo, critic": (
        ("recipe=ppo", "kl_controller=adaptive", *TINY, "phases.value_warm_up.steps=1"),
        ("collector@rollout=delayed_two",),
    ),
    "gspo": (("recipe=gspo", *TINY), DELAYED),
    "rlp": (("recipe=rlp", *TEXT), DELAYED),
    "pretrain_zero": (
        ("recipe=pretrain_zero", *TEXT, "proposal_rows.batch_size=4"),
        (*DELAYED, "collector@rollout.collector=pretrain_zero"),
    ),
    "remax": (
        ("recipe=remax", *TINY),
        (*DELAYED, "collector@rollout.collector=greedy_baseline"),
    ),
    "areal_decoupled": (("recipe=areal_decoupled", *TINY), ()),
    "flow_grpo": (
        ("recipe=flow_grpo", "phases.fit.steps=1", "phases.rl.steps=3", "group_size=4"),
        (*DELAYED, "collector@rollout.collector=flow_samples"),
    ),
}
# Without what delays the rollouts of its own.
AT_ONCE = {"areal_decoupled": ("collector@rollout=group",)}


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    folder = tmp_path_factory.mktemp("base") / "base"
    pretrain(folder)
    return folder


def left_by(words, directory):
    """All that a run leaves but what waits, which other parts save."""
    config = compose_config([*words, f"directory={directory}/run"])
    launch(config, plan_of(config))
    return compared(left(directory / "run"))


def compared(found):
    tensors = {k: v for k, v in found["tensors"][-1] if not k.startswith("state/")}
    return {"metrics": found["metrics"], "samples": found["samples"], "tensors": tensors}


def words_of(name, base):
    words, delayed = CASES[name]
    return [word.replace("{base}", str(base)) for word in words], delayed


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_a_step_that_waits_for_its_own_rollouts_is_that_without_a_cluster(name, base, tmp_path):
    words = [*words_of(name, base)[0], *AT_ONCE.get(name, ())]

    here = left_by(words, tmp_path / "here")
    there = left_by([*words, *INSIDE, "cluster.staleness=0"], tmp_path / "there")

    assert there == here
    assert len(here["tensors"]) > 10


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_rollouts_that_wait_are_those_of_the_collector_that_delays_them(name, base, tmp_path):
    words, delayed = words_of(name, base)

    here = left_by([*words, *delayed], tmp_path / "here")
    there = left_by([*words, *delayed, *INSIDE], tmp_path / "there")

    assert there == here
    assert here["metrics"][-1]["rollout/staleness"] > 0


@pytest.mark.slow
def test_ray_gives_what_workers_inside_give(tmp_path):
    words = ["recipe=grpo", *TINY]
    before = signal.getsignal(signal.SIGTERM)

    inside = left_by([*words, *INSIDE], tmp_path / "inside")

    assert left_by([*words, "cluster=ray"], tmp_path / "ray") == inside
    assert signal.getsignal(signal.SIGTERM) == before  # which Ray takes for itself


@pytest.mark.slow
def test_a_killed_worker_and_a_request_to_stop_change_nothing(tmp_path):
    words = ["recipe=grpo", *TINY]
    inside = left_by([*words, *INSIDE], tmp_path / "inside")
    job = planned([*words, "cluster=local", "cluster.timeout=120"])
    asked = workers.ASKED

    with workers.alarm(workers.SECONDS):
        killed = attempt(
            job, tmp_path / "killed", asked, workers.kill_workers, more=workers.watch_cluster
        )
        stopped = attempt(
            job, tmp_path / "stopped", asked, workers.ask_to_stop, more=workers.watch_cluster
        )
        again = attempt(job, tmp_path / "stopped", more=workers.watch_cluster)

    assert (killed.code, stopped.code, again.code) == (DONE, INTERRUPTED, DONE), killed.told
    assert killed.names == stopped.names == ["after asking a worker"]
    assert compared(left(tmp_path / "killed" / "run")) == inside
    assert compared(left(tmp_path / "stopped" / "run")) == inside


@pytest.mark.slow
def test_a_worker_that_says_nothing_is_found_within_the_timeout_and_changes_nothing(tmp_path):
    words = ["recipe=grpo", *TINY]
    inside = left_by([*words, *INSIDE], tmp_path / "inside")
    job = planned([*words, "cluster=local", f"cluster.timeout={workers.SILENT}"])

    act, start = workers.stop_workers, time.monotonic()
    with workers.alarm(workers.SECONDS):
        ended = attempt(job, tmp_path / "silent", workers.ASKED, act, more=workers.watch_cluster)
    seconds = time.monotonic() - start

    assert ended.code == DONE, ended.told
    assert compared(left(tmp_path / "silent" / "run")) == inside
    steps = read_lines(tmp_path / "silent" / "run" / "metrics.jsonl")
    assert sum(step.get("cluster/restarts", 0) for step in steps) == 1
    # Longer by the run itself, and by what two workers take to import torch.
    assert workers.SILENT <= seconds < workers.SILENT + 120


def test_the_page_tells_of_every_fault_and_of_none_that_was_lost():
    rows = rows_of("workers")

    single = [workers.STOP, workers.SILENCE]
    assert [*rows] == [*workers.FAULTS, *single]
    for what, points, seeds, equal, there, hangs in rows.values():
        assert int(points) == (1 if what in single else len(workers.POINTS))
        assert equal == f"{int(points) * int(seeds)} of {int(points) * int(seeds)}"
        assert (seeds, there, hangs) == ("3", "0", "0")
