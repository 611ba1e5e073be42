"""Trust-region policy optimisation on CartPole: within its ball, resumed to the bit."""

import shutil

import pytest

from rlcomp.config.build import Builder
from rlcomp.config.compose import compose_config
from rlcomp.config.resolve import plan_of
from rlcomp.run.launch import launch

SHORT = [
    "recipe=trpo",
    "phases.rl.steps=3",
    "phases.rl.every.evaluation=2",
    "phases.rl.every.checkpoint=1",
    "checkpoint.keep=9",
    "environment.num_envs=4",
    "collector.num_steps=20",
    "evaluation_environment.num_envs=2",
    "evaluation.max_steps=9",
]


def plan(*words):
    config = compose_config([*words])
    return config, plan_of(config)


def play(directory, *words):
    launch(*plan(*words, f"directory={directory}"))
    return directory


@pytest.fixture(scope="module")
def short(tmp_path_factory):
    return play(tmp_path_factory.mktemp("trpo") / "run", *SHORT)


@pytest.mark.parametrize("step", [1, 2])
def test_a_run_continued_after_any_step_is_bit_identical(bits, short, tmp_path, step):
    shutil.copytree(short, tmp_path / "run")

    kept = f"resume={tmp_path}/run/checkpoints/step-{step:08d}"

    assert bits(play(tmp_path / "run", *SHORT, kept)) == bits(short)


def test_policy_and_critic_are_trained_apart():
    made = Builder(plan(*SHORT, "directory=x")[1], seed=0).all()

    assert {*map(id, made["learner"].trained)} == {*map(id, made["actor"].parameters())}
    assert {*map(id, made["critic_learner"].trained)} == {*map(id, made["critic"].parameters())}


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_the_pole_is_balanced_within_the_ball(tmp_path, metrics, at_work, seed):
    rows = metrics(play(tmp_path, "recipe=trpo", f"seed={seed}"))

    # Seeds 0, 1, 2: 500 each; with a ball of 1e-12 nats 27, 9, 94.
    assert rows[-1]["evaluation/return"] >= 400
    assert max(row.get("trust_region/kl", 0.0) for row in rows) <= 0.01
    at_work("trpo", rows)
