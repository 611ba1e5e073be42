"""Small real runs: stopped and continued; and with things beside them that must not touch them."""

import json
import re
import shutil

import pytest
import torch
from omegaconf import OmegaConf
from safetensors.torch import load_file, save_file
from torch import nn

from rlcomp.checkpoint.manifest import write_manifest
from rlcomp.checkpoint.reader import list_checkpoints, open_checkpoint, restore_newest
from rlcomp.checkpoint.writer import Checkpoint
from rlcomp.config.compose import compose_config
from rlcomp.config.resolve import plan_of
from rlcomp.errors import CheckpointError
from rlcomp.run.launch import launch
from rlcomp.run.resume import checkpoint_to_resume

TINY = [
    "kl=none",
    "reference=frozen",
    "phases.warm_start.steps=3",
    "phases.rl.steps=4",
    "rollout.group_size=2",
    "model.hidden_size=16",
    "model.intermediate_size=16",
]


@pytest.fixture(scope="module")
def whole(play, tmp_path_factory):
    return play(tmp_path_factory.mktemp("whole") / "run", *TINY)


@pytest.mark.parametrize("step", [1, 3, 6])
def test_a_run_continued_after_any_step_is_bit_identical(bits, continued, tmp_path, whole, step):
    again = continued(whole, tmp_path / "run", step, *TINY)

    assert bits(again) == bits(whole)


DISTILLED = [
    "recipe=distillation",
    "model.hidden_size=16",
    "model.intermediate_size=16",
    "demonstrations.batch_size=4",
    "prompts.batch_size=8",
    "evaluation.num_prompts=4",
    "checkpoint.keep=9",
    "phases.teacher.steps=3",
    "phases.warm_start.steps=3",
    "phases.distillation.steps=2",
    "phases.distillation.every={checkpoint: 1}",
]


@pytest.mark.slow
def test_a_learner_whose_phase_is_over_keeps_its_learning_rate(tmp_path):
    for name in ("whole", "again"):
        config = compose_config([*DISTILLED, f"directory={tmp_path / name}"])
        if name == "again":
            shutil.copytree(tmp_path / "whole", tmp_path / "again")
            for path in list_checkpoints(tmp_path / "again" / "checkpoints")[:2]:
                shutil.rmtree(path)
        launch(config, plan_of(config))

    one, other = (open_checkpoint(tmp_path / name).state()["nodes"] for name in ("whole", "again"))
    # The order counts as well.
    assert json.dumps(one) == json.dumps(other)


def test_a_learners_state_that_is_none_is_passed_over(bits, play, tmp_path, whole):
    shutil.copytree(whole, tmp_path / "run")
    shutil.rmtree(tmp_path / "run" / "checkpoints" / "step-00000007")
    newest = tmp_path / "run" / "checkpoints" / "step-00000006"
    tensors = load_file(newest / "tensors.safetensors")
    tensors["state/learner:.optimizer.state.0.step"] = torch.tensor(float("nan"))
    save_file(tensors, newest / "tensors.safetensors")
    (newest / "manifest.json").unlink()
    write_manifest(newest)

    with pytest.warns(
        UserWarning, match=r"passed over: .*step-00000006: .*'learner:': 'step' is nan"
    ):
        again = play(tmp_path / "run", *TINY)

    assert bits(again) == bits(whole)


def test_the_newest_checkpoint_within_the_phases_is_restored_and_newer_ones_are_told(tmp_path):
    part = nn.Linear(1, 1, bias=False)
    for step in (1, 2, 3, 4):
        nn.init.constant_(part.weight, step)
        place = {"phase": 0, "step": step, "total": step, "trackers": {}, "seed": 5}
        Checkpoint(directory=str(tmp_path), keep=9).save({"part": part}, place)

    with pytest.warns(UserWarning, match="passed over: .*at step [34] of phase 'rl'") as told:
        saved, place, passed = restore_newest(
            open_checkpoint(tmp_path), {"part": part}, 5, {"rl": 2}
        )

    assert (saved.path.name, place["step"], part.weight.item()) == ("step-00000002", 2, 2.0)
    assert [path.name for path in passed] == ["step-00000004", "step-00000003"]
    assert len(told) == 2
    with (
        pytest.warns(UserWarning, match="passed over: "),
        pytest.raises(CheckpointError, match=r"step-00000001 is at step 1 of phase 'rl'"),
    ):
        restore_newest(open_checkpoint(tmp_path), {"part": part}, 5, {"rl": 0})


def test_a_run_begins_anew_only_where_it_is_told_to(tmp_path):
    config = OmegaConf.create({"directory": str(tmp_path), "resume": "auto", "seed": 5})
    checkpoint = Checkpoint(
        directory=str(tmp_path / "checkpoints"), keep=9, config=OmegaConf.to_yaml(config)
    )
    assert checkpoint_to_resume(config, checkpoint) is None
    path = checkpoint.save({}, {"phase": 0, "step": 1, "total": 1, "trackers": {}, "seed": 5})

    for overwrite in ({}, {"overwrite": False}):
        assert checkpoint_to_resume(OmegaConf.merge(config, overwrite), checkpoint).path == path
    assert checkpoint_to_resume(OmegaConf.merge(config, {"overwrite": True}), checkpoint) is None


def test_a_run_resumes_by_itself_and_a_finished_one_adds_nothing(play, tmp_path, whole, capsys):
    shutil.copytree(whole, tmp_path / "run")

    again = play(tmp_path / "run", *TINY)

    assert (again / "metrics.jsonl").read_bytes() == (whole / "metrics.jsonl").read_bytes()
    newest = tmp_path / "run" / "checkpoints" / "step-00000007"
    assert (
        f"{newest}: all steps are done (phases.rl.steps=4), and nothing is run; to go on, set "
        f"phases.rl.steps=8 resume={newest}\n"
    ) in capsys.readouterr().out


@pytest.mark.parametrize(
    ("overrides", "told"),
    [
        (
            ["resume=never"],
            r"resume is never, but .*step-00000007 is there: choose another directory",
        ),
        (["seed=1"], r"is of another config \(seed was 0, is 1\): choose another directory, or"),
        (["seed=1"], r"all its steps are done \(phases.rl.steps=4\): .*, phases.rl.steps=8$"),
    ],
)
def test_a_directory_with_another_run_in_it_is_refused(play, whole, overrides, told):
    with pytest.raises(CheckpointError, match=told):
        play(whole, *TINY, *overrides)


def test_a_checkpoint_of_another_model_is_refused(play, tmp_path, whole):
    with pytest.raises(
        CheckpointError, match=r"is of another run: .* resume with the config it was"
    ):
        play(tmp_path / "run", *TINY, f"resume={whole}", "model.hidden_size=8", "phases.rl.steps=9")


def training(rows):
    """What training itself did: no evaluations, and not the KL."""
    own = ("evaluation/", "kl/", "loss/kl")
    return [{k: v for k, v in row.items() if not k.startswith(own)} for row in rows]


@pytest.mark.parametrize(
    "overrides",
    [
        ["kl=in_loss", "kl_controller.kl_coef=0"],
        ["phases.rl.every.evaluation=2"],
        ["phases.rl.every.evaluation=null", "phases.warm_start.every.evaluation=null"],
    ],
    ids=["kl of nothing", "evaluation often", "no evaluation"],
)
def test_what_does_not_train_does_not_shift_a_number(play, metrics, tmp_path, whole, overrides):
    run = play(tmp_path / "run", *TINY, *overrides)

    assert training(metrics(run)) == training(metrics(whole))


def test_a_reference_takes_its_copy_when_its_phase_begins(metrics, whole):
    rows = [row for row in metrics(whole) if row["phase"] == "rl"]

    # Before the first update of the phase the policy is its own reference, warm start or not.
    assert rows[0]["kl/reference"] == pytest.approx(0.0, abs=1e-6)
    assert abs(rows[-1]["kl/reference"]) > 1e-4
    # In a step all of whose groups have equal rewards there is nothing to learn.
    assert sum(row["learner/grad_norm"] > 0 for row in rows) >= 2


def test_another_seed_is_another_run(play, metrics, tmp_path, whole):
    assert metrics(play(tmp_path / "run", *TINY, "seed=1"))[0] != metrics(whole)[0]


def test_another_environment_is_told_and_the_run_goes_on(
    metrics, continued, tmp_path, whole, monkeypatch
):
    from rlcomp.run import resume

    here = resume.environment()
    monkeypatch.setattr(resume, "environment", lambda: {**here, "torch": "0.1"})

    told = rf"in another environment \(torch was '{re.escape(here['torch'])}', is '0.1'\): numbers"
    with pytest.warns(match=told) as warned:
        again = continued(whole, tmp_path / "run", 6, *TINY)
    assert len(warned) == 1
    assert metrics(again) == metrics(whole)


def test_the_same_environment_is_not_told(continued, tmp_path, whole, recwarn):
    continued(whole, tmp_path / "run", 6, *TINY)

    assert not list(recwarn)


@pytest.mark.parametrize("tracker", ["tensorboard", pytest.param("wandb", marks=pytest.mark.slow)])
def test_a_tracker_changes_nothing(play, bits, tmp_path, whole, monkeypatch, tracker):
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")

    assert bits(play(tmp_path / "run", *TINY, f"tracker={tracker}")) == bits(whole)


def test_a_sample_table_changes_nothing(play, metrics, tmp_path, whole, monkeypatch):
    from rlcomp.trackers.tracker import JsonLines

    log, tables = JsonLines.log, []

    def without(self, total, phase, step, row, samples):
        tables.append(len(samples))
        log(self, total, phase, step, row, [])

    monkeypatch.setattr(JsonLines, "log", without)

    assert metrics(play(tmp_path / "run", *TINY)) == metrics(whole)
    assert sum(tables) > 0
