"""Llama 3: samples, fine-tuning on the right ones, DPO on pairs of right and wrong ones, twice."""

import shutil

import pytest
import torch
from safetensors.torch import load_file

from rlcomp.config.compose import compose_config
from rlcomp.config.resolve import plan_of
from rlcomp.files.json_lines import read_lines
from rlcomp.run.launch import launch

ROUND = ["sample", "rejection_sft", "dpo"]
PHASES = ["warm_start", *ROUND, *(f"{name}2" for name in ROUND)]
# Two steps a phase, saved after each: steps 1-2, 3-4, ..., 13-14.
SHORT = [
    "recipe=llama3",
    "reward=regex",
    "reward.pattern='^[0-4]'",
    "demonstrations.batch_size=8",
    "prompts.batch_size=4",
    "replay.batch_size=8",
    "pair_replay.batch_size=2",
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


def test_pairs_of_one_round_and_right_answers_of_both(tmp_path, metrics):
    rows = metrics(launched(tmp_path, *SHORT))

    assert [row["phase"] for row in rows] == [name for name in PHASES for _ in range(2)]
    by_phase = {name: [row for row in rows if row["phase"] == name] for name in PHASES}
    first, second = by_phase["sample"], by_phase["sample2"]
    assert second[0]["collected/rows"] > first[1]["collected/rows"]
    # At most one pair of each of 4 prompts, and emptied before the second round.
    assert 0 < second[0]["collected_pairs/rows"] <= 8
    # The reference is the model of the round as it is before DPO: nothing has changed at first.
    for name in ("dpo", "dpo2"):
        assert by_phase[name][0]["preference/chosen_change"] == pytest.approx(0, abs=1e-4)


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
def test_both_rounds_leave_more_than_there_was(tmp_path, at_work):
    words = ["recipe=llama3", "task.length=4", "phases.warm_start.steps=40"]
    words += ["phases.warm_start.every.evaluation=40"]
    for name in ("sample", "sample2"):
        words += [f"phases.{name}.steps=10"]
    for name in ("rejection_sft", "rejection_sft2"):
        words += [f"phases.{name}.steps=60", f"++phases.{name}.every.evaluation=60"]
    run = launched(tmp_path, *words)

    at_work("llama3", read_lines(run / "metrics.jsonl"))
