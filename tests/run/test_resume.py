"""Small real runs: stopped and continued; and with things beside them that must not touch them."""

import json
import shutil

import pytest
import torch

from rlcomp.describe import compose_config
from rlcomp.errors import CheckpointError
from rlcomp.io.checkpoint import open_checkpoint
from rlcomp.run.launch import launch
from rlcomp.run.resolve import plan_of

TINY = [
    # Half of all answers are right, so that there is something to learn in every step.
    "kl=none",
    "reference=frozen",
    "reward=regex",
    "reward.pattern='^[0-4]'",
    "phases.warm_start.steps=3",
    "phases.rl.steps=4",
    "prompts.batch_size=4",
    "rollout.group_size=2",
    "evaluation.num_prompts=8",
    "demonstrations.batch_size=8",
    "model.hidden_size=16",
    "model.intermediate_size=16",
    "learner.num_minibatches=2",
    "checkpoint.keep=9",
    "phases.warm_start.every.checkpoint=1",
    "phases.rl.every.checkpoint=1",
]


def play(directory, *overrides):
    config = compose_config([f"directory={directory}", *TINY, *overrides])
    launch(config, plan_of(config))
    return directory


def metrics(directory):
    rows = [json.loads(line) for line in (directory / "metrics.jsonl").read_text().splitlines()]
    return [{k: v for k, v in row.items() if not k.startswith("time/")} for row in rows]


def tensors(directory):
    return open_checkpoint(directory / "checkpoints" / "step-00000007").tensors()


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return play(tmp_path_factory.mktemp("whole") / "run")


@pytest.mark.parametrize("step", [1, 3, 6])
def test_a_run_continued_after_any_step_is_bit_identical(tmp_path, whole, step):
    shutil.copytree(whole, tmp_path / "run")
    start = tmp_path / "run" / "checkpoints" / f"step-{step:08d}"

    again = play(tmp_path / "run", f"resume={start}")

    assert metrics(again) == metrics(whole)
    assert (again / "samples.jsonl").read_text() == (whole / "samples.jsonl").read_text()
    found, expected = tensors(again), tensors(whole)
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[name], expected[name]) for name in expected)


def test_a_run_resumes_by_itself_and_a_finished_one_adds_nothing(tmp_path, whole):
    shutil.copytree(whole, tmp_path / "run")

    again = play(tmp_path / "run")

    assert (again / "metrics.jsonl").read_bytes() == (whole / "metrics.jsonl").read_bytes()


@pytest.mark.parametrize(
    ("overrides", "told"),
    [
        (
            ["resume=never"],
            r"resume is never, but .*step-00000007 is there: choose another directory",
        ),
        (["seed=1"], r"is of another config \(seed was 0, is 1\): choose another directory, or"),
    ],
)
def test_a_directory_with_another_run_in_it_is_refused(whole, overrides, told):
    with pytest.raises(CheckpointError, match=told):
        play(whole, *overrides)


def test_a_checkpoint_of_another_model_is_refused(tmp_path, whole):
    with pytest.raises(
        CheckpointError, match=r"is of another run: .* resume with the config it was"
    ):
        play(tmp_path / "run", f"resume={whole}", "model.hidden_size=8")


def training(directory):
    """What training itself did: no evaluations, and not the KL."""
    own = ("evaluation/", "kl/", "loss/kl")
    return [{k: v for k, v in row.items() if not k.startswith(own)} for row in metrics(directory)]


@pytest.mark.parametrize(
    "overrides",
    [
        ["kl=in_loss", "kl_controller.kl_coef=0"],
        ["phases.rl.every.evaluation=2"],
        ["phases.rl.every.evaluation=null", "phases.warm_start.every.evaluation=null"],
    ],
    ids=["kl of nothing", "evaluation often", "no evaluation"],
)
def test_what_does_not_train_does_not_shift_a_number(tmp_path, whole, overrides):
    assert training(play(tmp_path / "run", *overrides)) == training(whole)


def test_a_reference_takes_its_copy_when_its_phase_begins(whole):
    rows = [row for row in metrics(whole) if row["phase"] == "rl"]

    # Before the first update of the phase the policy is its own reference, warm start or not.
    assert rows[0]["kl/reference"] == pytest.approx(0.0, abs=1e-6)
    assert abs(rows[-1]["kl/reference"]) > 1e-4
    assert all(row["learner/grad_norm"] > 0 for row in rows)


def test_another_seed_is_another_run(tmp_path, whole):
    assert metrics(play(tmp_path / "run", "seed=1"))[0] != metrics(whole)[0]
