"""Determinism: the same config and seed give the same run, to the bit, for every recipe."""

from pathlib import Path

import pytest
import torch
from omegaconf import OmegaConf

from rlcomp.config.compose import compose_config
from rlcomp.config.options import config_directory
from rlcomp.config.resolve import plan_of
from rlcomp.run.launch import launch

# Data sets that are not shipped.
GIVEN = {"gsm8k", "offline_to_online", "text_classifier"}
RECIPES = sorted({file.stem for file in (config_directory() / "recipe").glob("*.yaml")} - GIVEN)
SMALL = {
    "prompts.batch_size": 4,
    "rollout.group_size": 4,
    "demonstrations.batch_size": 8,
    "evaluation.num_prompts": 8,
    "model.hidden_size": 16,
    "model.intermediate_size": 16,
    "learner.num_minibatches": 2,
    "note_rows.batch_size": 4,
    "proposal_rows.batch_size": 4,
    "sample.batch_size": 4,
    "updates.times": 2,
    "evaluation_environment.num_envs": 4,
}
# A model that has learnt nothing is hardly ever right: groups that vary are not found.
HALF_RIGHT = ("reward=regex", "reward.pattern='^[0-4]'")
WORDS = {
    "dapo": HALF_RIGHT,
    "deepseek_v32_specialists": ("store.choose=all",),
    "expert_iteration": ("store.choose=all",),
    "llama3": HALF_RIGHT,
    "r1": ("store.choose=all",),
    "rpt": ("dynamic_sampling=none",),
}


def run(recipe: str, directory: Path, *words: str) -> Path:
    """Two steps of every phase."""
    words = (*WORDS.get(recipe, ()), *words)
    config = compose_config([f"recipe={recipe}", f"directory={directory}", *words])
    for phase in filter(None, config.phases.values()):
        phase.steps = min(int(phase.steps), 2)
    for path, value in SMALL.items():
        if OmegaConf.select(config, path) is not None:
            OmegaConf.update(config, path, value)
    launch(config, plan_of(config))
    return directory


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    """A model of text, for the recipes that start from one."""
    return run("pretrain", tmp_path_factory.mktemp("base"))


@pytest.mark.slow
@pytest.mark.parametrize("recipe", RECIPES)
def test_the_same_seed_and_config_give_the_same_run_to_the_bit(recipe, bits, base, tmp_path):
    config = compose_config([f"recipe={recipe}"])
    made = str(OmegaConf.select(config, "model._target_"))
    words = (f"base={base}",) if made.endswith(".pretrained_model") else ()

    first = run(recipe, tmp_path / "first", *words)
    torch.rand(7)  # what the process drew in between is no part of a run

    assert bits(run(recipe, tmp_path / "again", *words)) == bits(first)
