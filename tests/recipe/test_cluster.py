"""Recipes whose rollouts are made by workers: the same run, to the bit."""

import importlib.util
import sys
from pathlib import Path

import pytest

from rlcomp.run.launch import launch
from rlcomp.wiring.compose import compose_config
from rlcomp.wiring.resolve import plan_of

FAULTS = Path(__file__).parents[1] / "faults"


def of_faults(name):
    """A script of the tests of faults, whose recipes take a second each."""
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, FAULTS / f"{name}.py")
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


recipes = of_faults("recipes")
TINY = recipes.TINY
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
    "rlp": (("recipe=rlp", *recipes.TEXT), DELAYED),
    "pretrain_zero": (
        ("recipe=pretrain_zero", *recipes.TEXT, "proposal_rows.batch_size=4"),
        (*DELAYED, "collector@rollout.collector=pretrain_zero"),
    ),
    "remax": (
        ("recipe=remax", *TINY),
        (*DELAYED, "collector@rollout.collector=greedy_baseline"),
    ),
    "areal_decoupled": (("recipe=areal_decoupled", *TINY), ()),
}


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    folder = tmp_path_factory.mktemp("base") / "base"
    recipes.pretrain(folder)
    return folder


def left_by(words, directory):
    """All that a run leaves, without what only a cluster records."""
    config = compose_config([*words, f"directory={directory}/run"])
    launch(config, plan_of(config))
    left = of_faults("attempts").left(directory / "run")
    for row in left["metrics"]:
        for name in [name for name in row if name.startswith("cluster/")]:
            del row[name]
    tensors = left["tensors"]
    # What waits is saved by other parts.
    left["tensors"] = {k: v for k, v in tensors.items() if not k.startswith("state/")}
    return {key: left[key] for key in ("metrics", "samples", "tensors")}


def words_of(name, base):
    words, delayed = CASES[name]
    return [word.replace("{base}", str(base)) for word in words], delayed


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in CASES if name != "areal_decoupled"])
def test_a_step_that_waits_for_its_own_rollouts_is_that_without_a_cluster(name, base, tmp_path):
    words, _ = words_of(name, base)

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
def test_processes_and_ray_give_what_workers_inside_give(tmp_path):
    words = ["recipe=grpo", *TINY]
    inside = left_by([*words, *INSIDE], tmp_path / "inside")

    assert left_by([*words, "cluster=local"], tmp_path / "local") == inside
    assert left_by([*words, "cluster=ray"], tmp_path / "ray") == inside
