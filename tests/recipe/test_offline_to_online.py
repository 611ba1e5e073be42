"""Offline learning from a file, then the same run online; resumed to the bit."""

import shutil

import pytest
import torch
from tensordict import TensorDict

from rlcomp.checkpoint.reader import open_checkpoint
from rlcomp.config.build import Builder
from rlcomp.config.compose import compose_config
from rlcomp.config.resolve import plan_of
from rlcomp.data.transitions import write_transitions
from rlcomp.run.launch import launch

ONLINE = ["iql", "td3_bc", "cql"]
SHORT = [
    "recipe=offline_to_online",
    "phases.offline.steps=2",
    "phases.offline.every={evaluation: 2, checkpoint: 1}",
    "checkpoint.keep=9",
    "updates.times=2",
    "sample.batch_size=8",
    "replay.capacity=100",
    "evaluation.max_steps=3",
    "evaluation_environment.num_envs=2",
]
THEN = ["phases.online.steps=2", "phases.online.every={evaluation: 2, checkpoint: 1}"]


@pytest.fixture(scope="module")
def steps(tmp_path_factory):
    torch.manual_seed(0)
    after = {
        "observation": torch.randn(20, 3),
        "reward": torch.randn(20, 1),
        "terminated": torch.zeros(20, 1, dtype=torch.bool),
        "done": torch.zeros(20, 1, dtype=torch.bool),
    }
    rows = {"observation": torch.randn(20, 3), "action": torch.rand(20, 1) * 4 - 2, "next": after}
    path = tmp_path_factory.mktemp("steps") / "steps.safetensors"
    write_transitions(path, TensorDict(rows, batch_size=[20]))
    return path


def plan(*words):
    config = compose_config([*words])
    return config, plan_of(config)


def play(directory, *words):
    launch(*plan(*words, f"directory={directory}"))
    return directory


@pytest.fixture(scope="module")
def short(tmp_path_factory, steps):
    words = [*SHORT, *THEN, f"dataset.path={steps}"]
    return words, play(tmp_path_factory.mktemp("offline") / "run", *words)


@pytest.mark.parametrize("step", [2, 4])
def test_a_run_continued_offline_or_online_is_bit_identical(bits, short, tmp_path, step):
    words, whole = short
    shutil.copytree(whole, tmp_path / "run")

    kept = f"resume={tmp_path}/run/checkpoints/step-{step:08d}"

    assert bits(play(tmp_path / "run", *words, kept)) == bits(whole)


def test_the_steps_of_the_file_stay_and_those_of_the_run_are_added(short, metrics):
    rows = metrics(short[1])

    # 20 of the file; 4 copies of 4 steps each time.
    assert [row["replay/size"] for row in rows if "replay/size" in row] == [20.0, 36.0, 52.0]
    held = open_checkpoint(short[1]).tensors()["state/replay:.rows.action"]
    assert held.shape == (52, 1)


@pytest.mark.parametrize("method", ["iql", "td3_bc", "cql", "bc", "diffusion_bc"])
def test_every_method_trains_each_weight_that_it_has(method, steps, tmp_path):
    then = THEN if method in ONLINE else []
    words = [*SHORT, *then, f"offline={method}", f"dataset.path={steps}", "updates.times=4"]
    made = Builder(plan(*words, "directory=x")[1], seed=0).all()
    before = {name: weight.detach().clone() for name, weight in made["learner"].named_parameters()}

    made["extend"](made["dataset"]())
    for _ in range(4):
        made["learner"](made["sample"]())

    after = dict(made["learner"].named_parameters())
    still = [name for name, weight in before.items() if torch.equal(weight, after[name])]
    assert [name for name in still if after[name].requires_grad] == []
    trained = {id(weight) for weight in made["learner"].trained}
    assert {id(weight) for weight in made["actor"].parameters()} <= trained
