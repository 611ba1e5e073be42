"""Hindsight experience replay: it reaches goals, and without hindsight nothing does."""

import shutil

import pytest

from rlcomp.config.build import Builder
from rlcomp.config.compose import compose_config
from rlcomp.config.resolve import plan_of
from rlcomp.run.launch import launch

SHORT = [
    "recipe=her",
    "phases.rl.steps=4",
    "phases.rl.every.evaluation=2",
    "phases.rl.every.checkpoint=1",
    "checkpoint.keep=9",
    "collector.num_steps=7",
    "environment.max_steps=9",
    "sample.batch_size=16",
    "updates.times=3",
    "replay.capacity=300",
    "evaluation_environment.num_envs=2",
]


def plan(*words):
    config = compose_config([*words])
    return config, plan_of(config)


def play(directory, *words):
    launch(*plan(*words, f"directory={directory}"))
    return directory


def success(rows):
    return [row["evaluation/success"] for row in rows if "evaluation/success" in row]


@pytest.fixture(scope="module")
def short(tmp_path_factory):
    return play(tmp_path_factory.mktemp("her") / "run", *SHORT)


@pytest.mark.parametrize("step", [1, 2, 3])
def test_a_run_continued_after_any_step_is_bit_identical(bits, short, tmp_path, step):
    shutil.copytree(short, tmp_path / "run")

    kept = f"resume={tmp_path}/run/checkpoints/step-{step:08d}"

    assert bits(play(tmp_path / "run", *SHORT, kept)) == bits(short)


def test_no_node_has_weights_that_nobody_trains():
    made = Builder(plan(*SHORT, "directory=x")[1], seed=0).all()
    trained = {id(weight) for weight in made["learner"].trained}

    assert {id(weight) for weight in made["actor"].parameters()} <= trained


@pytest.fixture(scope="module")
def reached(tmp_path_factory, metrics):
    """The metrics of a run that ends at the first evaluation with .9 of the goals."""
    stop = ["early_stop=reached", "early_stop.metric=evaluation/success", "early_stop.high=0.89"]
    return metrics(play(tmp_path_factory.mktemp("her") / "run", "recipe=her", *stop))


@pytest.mark.slow
def test_goals_are_reached(reached, at_work):
    # All 30 rounds, seeds 0, 1, 2: 1, 1, 1; without hindsight 0, .02, 0.
    assert success(reached)[-1] >= 0.9
    at_work("her", reached)


@pytest.mark.slow
def test_without_hindsight_they_are_not(reached, tmp_path, metrics):
    # In as many rounds; after 30 it is 0, .02, 0.
    rounds = f"phases.rl.steps={len(reached)}"
    rows = metrics(play(tmp_path, "recipe=her", "sample.fraction=0", rounds))

    assert len(rows) == len(reached)
    assert success(rows)[-1] <= 0.1
