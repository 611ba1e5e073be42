"""Replays of other kinds in the place of the uniform one; resumed to the bit."""

import shutil

import pytest

from rlcomp.checkpoint.reader import open_checkpoint
from rlcomp.config.compose import compose_config
from rlcomp.config.resolve import plan_of
from rlcomp.run.launch import launch

SHORT = [
    "recipe=sac",
    "phases.warm_up.steps=2",
    "phases.rl.steps=3",
    "phases.rl.every={checkpoint: 1}",
    "checkpoint.keep=9",
    "updates.times=2",
    "sample.batch_size=8",
    "evaluation_environment.num_envs=2",
]
KINDS = {
    "memory_mapped": ["replay=memory_mapped", "replay.capacity=60"],
    "prioritized": [
        "replay=prioritized",
        "replay.capacity=60",
        "+replay@reprioritise=reprioritise",
        "updates.stages=[sample,learner,reprioritise,targets]",
    ],
    "randomised": ["randomise=log_uniform", "replay.capacity=60"],
}


def play(directory, *words):
    config = compose_config([*words, f"directory={directory}"])
    launch(config, plan_of(config))
    return directory


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.slow
def test_a_run_continued_after_a_step_is_bit_identical(kind, bits, tmp_path):
    words = [*SHORT, *KINDS[kind]]
    whole = play(tmp_path / "whole", *words)
    shutil.copytree(whole, tmp_path / "again")

    kept = f"resume={tmp_path}/again/checkpoints/step-{3:08d}"

    assert bits(play(tmp_path / "again", *words, kept)) == bits(whole)
    tensors = open_checkpoint(whole).tensors()
    held = [name for name in tensors if name.startswith("state/replay:.rows")]
    # 2 warm-up steps and 3 more of 16 rows each.
    segments = sorted((whole / "replay" / "segments").glob("*")) if "mapped" in kind else []
    assert (held == []) == bool(segments)
    if segments:
        assert [file.name[5:20].lstrip("0") for file in segments] == ["", "48", "64"]
    elif kind == "prioritized":
        assert tensors["state/replay:.priority"].shape == (60,)
        assert tensors["state/replay:.priority"].unique().numel() > 5
    else:
        assert tensors["environment:drawn"].shape == (4, 3)
