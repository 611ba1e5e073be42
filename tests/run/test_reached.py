"""A run builds, saves and restores the parts that it uses, and no others."""

import json
import shutil

import pytest
import torch
from omegaconf import OmegaConf
from torch import nn

from rlcomp.checkpoint.reader import open_checkpoint
from rlcomp.checkpoint.writer import Checkpoint
from rlcomp.config.compose import compose_config
from rlcomp.config.plan import Plan
from rlcomp.config.resolve import check_plan, plan_of, read
from rlcomp.errors import CheckpointError, ConfigErrors, RlcompWarning
from rlcomp.files.json_lines import read_lines
from rlcomp.run.launch import launch
from rlcomp.run.parts import build, load, save
from rlcomp.run.resume import checkpoint_to_resume


@pytest.fixture
def rows(tmp_path):
    """Nine rows of a file: fewer than a batch of demonstrations."""
    file = tmp_path / "rows.jsonl"
    examples = [{"prompt": f"{i}+1=", "answer": f"{i + 1}"} for i in range(9)]
    file.write_text("\n".join(map(json.dumps, examples)))
    return [
        "recipe=grpo",
        "task=file",
        f"task.path={file}",
        "task.prompt_field=prompt",
        "task.answer_field=answer",
        "task.held_out=0.2",
        "~phases.warm_start",
        "phases.rl.steps=2",
        "phases.rl.every={checkpoint: 1}",
        "prompts.batch_size=2",
        "rollout.group_size=2",
        "model.hidden_size=16",
        "model.num_hidden_layers=1",
    ]


def run(directory, *words):
    config = compose_config([*words, f"directory={directory}"])
    launch(config, plan_of(config))
    return directory


def numbers(directory):
    lines = read_lines(directory / "metrics.jsonl")
    return [{k: v for k, v in line.items() if not k.startswith("time/")} for line in lines]


def saved_nodes(directory):
    return {path.partition(".")[0] for path in open_checkpoint(directory).nodes()}


def run_with_all_nodes(directory, words, monkeypatch):
    """Run as 0.2 did, which built and saved every node of the config."""
    with monkeypatch.context() as patch:
        patch.setattr(Plan, "reached", lambda self: self)
        run(directory, *words, "demonstrations.batch_size=2")
    return directory


def test_nine_rows_are_enough_without_a_warm_start(rows, tmp_path):
    run(tmp_path / "run", *rows)

    nodes = saved_nodes(tmp_path / "run")
    assert {"model", "policy", "learner", "prompts", "rollout"} <= nodes
    assert not {"demonstrations", "sft_learner", "evaluation"} & nodes


def test_nine_rows_are_enough_from_python_too(rows, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:  # as the versions that built every node
        patch.setattr(Plan, "reached", lambda self: self)
        with pytest.warns(RlcompWarning, match="no phase of this run uses demonstrations"):
            everything = build(*rows, "demonstrations.batch_size=2")
    save(everything, tmp_path / "saved", step=3)
    parts = build(*rows)

    assert {"demonstrations", "sft_learner"} <= everything.keys() - parts.keys()
    with pytest.raises(KeyError, match="'demonstrations': no phase uses it; add it to the stages"):
        parts["demonstrations"]
    with torch.no_grad():
        next(parts["model"].parameters()).zero_()
    assert load(parts, tmp_path / "saved") == 3
    for mine, theirs in zip(
        parts["model"].parameters(), everything["model"].parameters(), strict=True
    ):
        assert torch.equal(mine, theirs)


def test_a_checkpoint_with_the_state_of_unused_nodes_is_continued_without_it(
    rows, tmp_path, monkeypatch
):
    old = run_with_all_nodes(tmp_path / "old", rows, monkeypatch)
    assert {"demonstrations", "sft_learner"} <= saved_nodes(old)
    half = ["demonstrations.batch_size=2", f"resume={old / 'checkpoints' / 'step-00000001'}"]

    with pytest.warns(
        UserWarning,
        match="the state of demonstrations, sft_learner is left out, for no phase",
    ):
        run(tmp_path / "new", *rows, *half)

    assert numbers(tmp_path / "new") == numbers(old)[1:]
    assert "sft_learner" not in saved_nodes(tmp_path / "new")


def test_an_old_run_goes_on_in_its_own_directory(rows, tmp_path, monkeypatch):
    old = run_with_all_nodes(tmp_path / "old", rows, monkeypatch)
    whole = numbers(old)
    shutil.rmtree(old / "checkpoints" / "step-00000002")

    with pytest.warns(UserWarning, match="is left out, for no phase of this run uses them"):
        run(old, *rows, "demonstrations.batch_size=2")

    assert numbers(old) == whole


def layers_config(directory, every, **more):
    layer = {"_target_": "torch.nn.Linear"}
    body = {"steps": 2, "stages": ["first"], "every": {"second": every}}
    parts = {"first": layer, "second": layer, "seed": 5, "directory": str(directory)}
    return OmegaConf.create({**parts, "phases": {"rl": body}, **more})


def saved_layers(directory, names, every):
    """Write a checkpoint of the first step of a run, with the state of some of its layers."""
    text = OmegaConf.to_yaml(layers_config(directory, every))
    nodes = {name: nn.Linear(1, 1) for name in names}
    place = {"phase": 0, "step": 1, "total": 1, "trackers": {}, "seed": 5}
    writer = Checkpoint(directory=str(directory / "checkpoints"), keep=9, config=text)
    return writer.save(nodes, place), nodes


def restored_layers(path, every):
    nodes = {name: nn.Linear(1, 1) for name in ("first", "second")}
    config = layers_config(path.parents[1] / "new", every, resume=str(path))
    checkpoint_to_resume(config, None).restore(nodes)
    return nodes


def test_a_node_that_only_the_continued_run_uses_begins_anew(tmp_path):
    path, old = saved_layers(tmp_path, ["first"], every=None)

    new = restored_layers(path, every=1)

    assert torch.equal(new["first"].weight, old["first"].weight)


def test_the_state_of_a_node_that_both_runs_use_is_not_done_without(tmp_path):
    path, _ = saved_layers(tmp_path, ["first"], every=1)

    with pytest.raises(CheckpointError, match=r"differ in 'second:bias'"):
        restored_layers(path, every=1)


def test_state_that_is_there_is_restored_whoever_used_it(tmp_path):
    path, old = saved_layers(tmp_path, ["first", "second"], every=None)

    new = restored_layers(path, every=1)

    assert torch.equal(new["second"].weight, old["second"].weight)


def test_what_is_wrong_with_an_unused_part_is_told_by_its_names_alone(rows):
    config = compose_config([*rows, "sft_learner.optimizer.lr=abc"])
    plan, errors = read(config)

    assert errors == check_plan(plan) == []

    OmegaConf.update(config, "sft_learner.epoch", 3, force_add=True)
    with pytest.raises(ConfigErrors, match=r"^sft_learner\.epoch: .* takes no such argument"):
        plan_of(config)
