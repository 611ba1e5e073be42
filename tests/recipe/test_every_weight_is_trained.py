"""No recipe shows weights that nobody trains: each moves, or is declared frozen here."""

import json

import pytest
import torch
from omegaconf import OmegaConf, open_dict
from torch import nn

from rlcomp.io.saved import open_checkpoint
from rlcomp.io.state import owned
from rlcomp.run.launch import launch
from rlcomp.wiring.build import Builder
from rlcomp.wiring.compose import compose_config
from rlcomp.wiring.options import config_directory
from rlcomp.wiring.resolve import plan_of

CONF = config_directory() / "recipe"


def of_control(recipe):
    """Whether a recipe, or the one it starts from, has networks too small for a GPU."""
    config = OmegaConf.load(CONF / f"{recipe}.yaml")
    first = config.defaults[0]
    return config.get("device") == "cpu" or (isinstance(first, str) and of_control(first))


CONTROL = [recipe for file in CONF.glob("*.yaml") if of_control(recipe := file.stem)]
# Weights that stay what they are, by what their names hold, and why.
FROZEN = {"target_": "target networks follow by their own stage"}
STEP = {"observation": [1.0, 0.0, 0.0], "action": [0.5], "reward": -1.0, "terminated": False}
SMALL = {
    "updates.times": 8,
    "sample.batch_size": 8,
    "replay.capacity": 500,
    "group_size": 8,
    "environment.max_steps": 20,
    "evaluation_environment.num_envs": 2,
    "evaluation.num_samples": 4,
}


def config_of(recipe, folder, *words):
    """The recipe, two steps of every phase, with a file where it needs one."""
    file = folder / "steps.jsonl"
    file.write_text((json.dumps({**STEP, "next_observation": [1.0, 0.0, 0.1]}) + "\n") * 8)
    given = [f"dataset.path={file}"] if "offline" in recipe else []
    config = compose_config([f"recipe={recipe}", f"directory={folder}/run", *given, *words])
    for phase in filter(None, config.phases.values()):
        with open_dict(phase):
            phase.steps, phase.every = min(int(phase.steps), 2), {"checkpoint": 2}
    for path, value in SMALL.items():
        if OmegaConf.select(config, path) is not None:
            OmegaConf.update(config, path, value)
    return config


def learners(made):
    return [node for node in made.values() if hasattr(node, "trained")]


def not_trained(made):
    """Names of weights that want a gradient, of any node, and that no learner has."""
    trained = {id(weight) for learner in learners(made) for weight in learner.trained}
    modules = {name: node for name, node in made.items() if isinstance(node, nn.Module)}
    return [
        f"{name}.{path}"
        for name, module in modules.items()
        for path, weight in module.named_parameters()
        if weight.requires_grad and id(weight) not in trained
    ]


@pytest.mark.slow
@pytest.mark.parametrize("recipe", sorted(CONTROL))
def test_every_weight_of_a_control_recipe_moves(recipe, tmp_path):
    config = config_of(recipe, tmp_path)
    plan = plan_of(config)
    made = Builder(plan, seed=0).all()
    assert not_trained(made) == []
    trained = {id(weight) for learner in learners(made) for weight in learner.trained}
    before = {
        name: tensor.detach().clone()
        for name, tensor in owned(made).items()
        if id(tensor) in trained
    }

    launch(config, plan)

    after = open_checkpoint(tmp_path / "run").tensors()
    assert before
    assert before.keys() <= after.keys()
    still = [name for name, tensor in before.items() if torch.equal(tensor, after[name])]
    assert [name for name in still if not any(part in name for part in FROZEN)] == []


def test_a_critic_that_is_a_node_of_its_own_would_be_found(tmp_path):
    config = config_of("sac", tmp_path)
    # torchrl draws new weights for its stack of critics: the node's are in no optimiser.
    OmegaConf.update(config, "q_value._partial_", False)

    made = Builder(plan_of(config), seed=0).all()

    assert [name for name in not_trained(made) if name.startswith("q_value")] != []
