"""R1's pipeline: five phases, rows that one collects and another trains on, weights put back."""

import pytest
import torch
from safetensors.torch import load_file

from rlcomp.config.compose import compose_config
from rlcomp.config.resolve import plan_of
from rlcomp.files.json_lines import read_lines
from rlcomp.run.launch import launch

PHASES = ["warm_start", "rl", "collect", "rejection_sft", "rl2"]
# Two steps a phase (rl and rl2 have three), saved after each: steps 1-2, 3-5, 6-7, 8-9, 10-12.
TINY = [
    "recipe=r1",
    "replay.batch_size=8",
    "phases.collect.steps=2",
    "phases.rejection_sft.steps=2",
    "phases.rl2.steps=3",
    *(f"phases.{name}.every.checkpoint=1" for name in ("collect", "rejection_sft")),
]


def steps(rows):
    found = {name: sum(row["phase"] == name for row in rows) for name in PHASES}
    return [name for name in dict.fromkeys(row["phase"] for row in rows)], found


def weights(run, step):
    found = load_file(run / "checkpoints" / f"step-{step:08d}" / "tensors.safetensors")
    return {name: value for name, value in found.items() if name.startswith("model:")}


@pytest.mark.slow
def test_a_run_that_is_killed_in_any_phase_goes_on_bit_for_bit(play, continued, metrics, tmp_path):
    whole = play(tmp_path / "whole", *TINY)
    expected = metrics(whole)
    assert steps(expected) == (
        PHASES,
        {"warm_start": 2, "rl": 3, "collect": 2, "rejection_sft": 2, "rl2": 3},
    )
    assert [row["collected/rows"] > 0 for row in expected if row["phase"] == "collect"] == [
        True
    ] * 2
    for step in (1, 4, 6, 7, 8, 10):  # within a phase, with the store half full and full
        again = continued(whole, tmp_path / f"from-{step}", step, *TINY)
        assert metrics(again) == expected, f"from step {step}"
        last, other = weights(whole, 12), weights(again, 12)
        assert all(torch.equal(last[name], other[name]) for name in last)


@pytest.mark.slow
def test_the_second_fine_tuning_begins_with_the_weights_of_the_cold_start(play, tmp_path):
    words = ["replay_learner.optimizer.lr=1e-30", "phases.rejection_sft.steps=1"]
    run = play(tmp_path, *TINY, *words)
    cold, moved, back = (weights(run, step) for step in (2, 7, 8))
    named = [name for name in cold if cold[name].is_floating_point()]
    assert any(not torch.equal(cold[name], moved[name]) for name in named)
    assert all(torch.equal(cold[name], back[name]) for name in named)


@pytest.mark.no_cover
@pytest.mark.slow
def test_every_phase_leaves_more_than_the_one_before(tmp_path, at_work):
    words = ["task.length=4", "phases.warm_start.steps=40", "phases.rl.steps=15"]
    words += ["phases.collect.steps=10", "phases.rejection_sft.steps=60"]
    words += [f"phases.{name}.every={{evaluation: 60}}" for name in (*PHASES[:2], PHASES[3])]
    config = compose_config(["recipe=r1", *words, f"directory={tmp_path}"])
    launch(config, plan_of(config))
    at_work("r1", read_lines(tmp_path / "metrics.jsonl"))


@pytest.mark.no_cover
@pytest.mark.slow
def test_a_base_without_demonstrations_of_its_own_learns_by_the_verifier_alone(tmp_path, at_work):
    words = ["task.length=4", "phases.pretraining.steps=60", "phases.rl.steps=40"]
    words += [f"phases.{name}.every={{evaluation: 60}}" for name in ("pretraining", "rl")]
    config = compose_config(["recipe=r1_zero", *words, f"directory={tmp_path}"])
    launch(config, plan_of(config))
    at_work("r1_zero", read_lines(tmp_path / "metrics.jsonl"))
