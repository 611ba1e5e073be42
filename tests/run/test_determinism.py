"""Determinism: the same config and seed give the same run, to the bit, for every recipe."""

from pathlib import Path

import pytest
import torch
from omegaconf import OmegaConf

from rlcomp.run.launch import launch
from rlcomp.wiring.compose import compose_config
from rlcomp.wiring.options import config_directory
from rlcomp.wiring.resolve import plan_of

# gsm8k is grpo on a data set that is not shipped.
RECIPES = sorted({file.stem for file in (config_directory() / "recipe").glob("*.yaml")} - {"gsm8k"})
SMALL = {
    "prompts.batch_size": 4,
    "rollout.group_size": 4,
    "demonstrations.batch_size": 8,
    "evaluation.num_prompts": 8,
    "model.hidden_size": 16,
    "model.intermediate_size": 16,
    "learner.num_minibatches": 2,
}


def run(recipe: str, directory: Path) -> Path:
    """Two steps of every phase."""
    config = compose_config([f"recipe={recipe}", f"directory={directory}"])
    for phase in config.phases.values():
        phase.steps = min(int(phase.steps), 2)
    for path, value in SMALL.items():
        if OmegaConf.select(config, path) is not None:
            OmegaConf.update(config, path, value)
    launch(config, plan_of(config))
    return directory


@pytest.mark.slow
@pytest.mark.parametrize("recipe", RECIPES)
def test_the_same_seed_and_config_give_the_same_run_to_the_bit(recipe, bits, tmp_path):
    first = run(recipe, tmp_path / "first")
    # What the process drew in between is no part of a run.
    torch.rand(7)

    assert bits(run(recipe, tmp_path / "again")) == bits(first)
