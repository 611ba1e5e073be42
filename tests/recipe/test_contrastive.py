"""Contrastive reinforcement learning: resumed to the bit, at any depth; it gets around the wall."""

import shutil

import pytest
import torch

from rlcomp.checkpoint.reader import open_checkpoint
from rlcomp.config.build import Builder
from rlcomp.config.compose import compose_config
from rlcomp.config.resolve import plan_of
from rlcomp.run.launch import launch

SHORT = [
    "recipe=contrastive",
    "phases.rl.steps=3",
    "phases.rl.every.evaluation=3",
    "phases.rl.every.checkpoint=1",
    "checkpoint.keep=9",
    "collector.num_steps=7",
    "environment.max_steps=9",
    "environment.num_envs=4",
    "sample.batch_size=16",
    "updates.times=3",
    "network.width=16",
    "evaluation_environment.num_envs=2",
]
DEEP = ["network.depth=1024", "phases.rl.steps=2", "updates.times=1", "evaluation.max_steps=2"]


def plan(*words):
    config = compose_config([*words])
    return config, plan_of(config)


def play(directory, *words):
    launch(*plan(*words, f"directory={directory}"))
    return directory


@pytest.fixture(scope="module")
def short(tmp_path_factory):
    return play(tmp_path_factory.mktemp("contrastive") / "run", *SHORT)


@pytest.mark.parametrize("step", [1, 2])
def test_a_run_continued_after_any_step_is_bit_identical(bits, short, tmp_path, step):
    shutil.copytree(short, tmp_path / "run")

    kept = f"resume={tmp_path}/run/checkpoints/step-{step:08d}"

    assert bits(play(tmp_path / "run", *SHORT, kept)) == bits(short)


def test_every_network_moves_and_depth_is_of_all_of_them(short):
    made = Builder(plan(*SHORT, "directory=x")[1], seed=0).all()
    fresh = {name: value.clone() for name, value in made["loss"].named_parameters()}

    open_checkpoint(short).restore(made)

    after = dict(made["loss"].named_parameters())
    assert [name for name, value in fresh.items() if torch.equal(value, after[name])] == []
    deep = Builder(plan(*SHORT, "network.depth=8", "directory=x")[1], seed=0).all()
    nets = [deep["critic"].phi, deep["critic"].psi, deep["actor"].module[0].module.network]
    assert [len(net.blocks) for net in nets] == [2, 2, 2]


@pytest.mark.slow
def test_a_net_of_1024_layers_learns_a_step_and_is_resumed(bits, tmp_path):
    whole = play(tmp_path / "run", *SHORT, *DEEP)
    before = open_checkpoint(whole / "checkpoints" / "step-00000001").tensors()
    tensors = open_checkpoint(whole).tensors()
    for end in ("first.0.weight", "last.weight"):
        trained = tensors[f"critic:phi.{end}"]
        assert bool(torch.isfinite(trained).all())
        assert not torch.equal(trained, before[f"critic:phi.{end}"])
    shutil.copytree(whole, tmp_path / "again")

    kept = f"resume={tmp_path}/again/checkpoints/step-00000001"

    assert bits(play(tmp_path / "again", *SHORT, *DEEP, kept)) == bits(whole)


@pytest.mark.slow
def test_it_gets_around_the_wall(tmp_path, metrics, at_work):
    at_work("contrastive", metrics(play(tmp_path, "recipe=contrastive")))
