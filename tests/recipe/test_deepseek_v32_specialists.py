"""DeepSeek-V3.2's post-training: specialists of two domains, one distilled model, mixed RL."""

import shutil

import pytest
import torch
from safetensors.torch import load_file

from rlcomp.config.compose import compose_config
from rlcomp.config.resolve import plan_of
from rlcomp.files.json_lines import read_lines
from rlcomp.run.launch import launch

PHASES = [
    "warm_start",
    *("up_specialist", "up_answers", "down_specialist", "down_answers"),
    *("distillation", "rl"),
]
# Two steps a phase, saved after each: steps 1-2, 3-4, ..., 13-14.
SHORT = [
    "recipe=deepseek_v32_specialists",
    "reward=regex",
    "reward.pattern='^[0-4]'",
    "demonstrations.batch_size=8",
    *(f"{name}.batch_size=4" for name in ("prompts", "up_prompts", "down_prompts")),
    "group_size=4",
    "replay.batch_size=8",
    "evaluation.num_prompts=8",
    "checkpoint.keep=19",
    *(f"phases.{name}.steps=2" for name in PHASES),
    *(f"++phases.{name}.every.checkpoint=1" for name in PHASES),
]


def launched(directory, *words):
    config = compose_config([*words, f"directory={directory}"])
    launch(config, plan_of(config))
    return directory


def weights(run, step):
    found = load_file(run / "checkpoints" / f"step-{step:08d}" / "tensors.safetensors")
    return {name: value for name, value in found.items() if name.startswith("model:")}


def test_the_answers_of_both_specialists_are_learnt_from(tmp_path, metrics):
    rows = metrics(launched(tmp_path, *SHORT))

    assert [row["phase"] for row in rows] == [name for name in PHASES for _ in range(2)]
    by_phase = {name: [row for row in rows if row["phase"] == name] for name in PHASES}
    up, down = (by_phase[f"{name}_answers"] for name in ("up", "down"))
    assert 0 < up[1]["collected/rows"] < down[0]["collected/rows"]


@pytest.mark.slow
def test_a_run_that_is_killed_in_any_phase_goes_on_bit_for_bit(tmp_path, metrics):
    whole = launched(tmp_path / "whole", *SHORT)
    for step in range(1, 14, 2):  # within each phase
        again = shutil.copytree(whole, tmp_path / f"from-{step}")
        resume = f"resume={again}/checkpoints/step-{step:08d}"
        assert metrics(launched(again, *SHORT, resume)) == metrics(whole), f"from step {step}"
        last, other = weights(whole, 14), weights(again, 14)
        assert all(torch.equal(last[name], other[name]) for name in last)


@pytest.mark.slow
def test_the_student_starts_from_the_base_and_not_from_a_specialist(tmp_path):
    run = launched(tmp_path, *SHORT, "replay_learner.optimizer.lr=1e-30")
    base, student = weights(run, 2), weights(run, 12)
    named = [name for name, value in base.items() if value.is_floating_point()]

    def same(one, other):
        return all(torch.equal(one[name], other[name]) for name in named)

    assert not same(weights(run, 4), base)
    assert not same(weights(run, 8), base)
    assert not same(weights(run, 8), weights(run, 4))
    assert same(student, base)  # its rate is 0


@pytest.mark.no_cover
@pytest.mark.slow
def test_one_model_ends_with_what_each_specialist_knew(tmp_path, at_work):
    words = ["recipe=deepseek_v32_specialists", "evaluation.num_prompts=128"]
    words += ["up.length=4", "down.length=4", "phases.warm_start.steps=50"]
    for name in ("up", "down"):
        words += [f"phases.{name}_specialist.steps=12", f"phases.{name}_answers.steps=6"]
        words += [f"phases.{name}_specialist.every={{evaluation: 12}}"]
    words += ["phases.distillation={steps: 50, every: {evaluation: 50}}"]
    words += ["phases.rl={steps: 12, every: {evaluation: 12}}"]
    words += ["phases.warm_start.every={evaluation: 50}"]
    run = launched(tmp_path, *words)

    at_work("deepseek_v32_specialists", read_lines(run / "metrics.jsonl"))
