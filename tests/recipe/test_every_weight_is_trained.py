"""No recipe shows weights that nobody trains: each moves, or is declared frozen here."""

import functools
import json

import pytest
import torch
from omegaconf import OmegaConf, open_dict
from torch import nn

from rlcomp.checkpoint.reader import open_checkpoint
from rlcomp.checkpoint.state import owned_tensors
from rlcomp.config.build import Builder
from rlcomp.config.compose import compose_config
from rlcomp.config.options import config_directory
from rlcomp.config.resolve import plan_of
from rlcomp.run.launch import launch
from rlcomp.testing import tiny_model
from rlcomp.text.tokenizer import byte_tokenizer

CONF = config_directory() / "recipe"


@functools.cache  # one that others start from is read once
def of_control(recipe):
    """Whether a recipe, or the one it starts from, has networks too small for a GPU."""
    config = OmegaConf.load(CONF / f"{recipe}.yaml")
    first = config.defaults[0]
    return config.get("device") == "cpu" or (isinstance(first, str) and of_control(first))


CONTROL = [recipe for file in CONF.glob("*.yaml") if of_control(recipe := file.stem)]
LANGUAGE = sorted({file.stem for file in CONF.glob("*.yaml")} - {*CONTROL})
ON_TEXT = ("next_segment", "pretrain_zero", "quiet_star", "rlp", "rpt")
# One for each kind of learner, and for what else is trained beside a policy.
MOVING = ("nlrl", "pama_critic", "ppo", "reward_model", "self_play", "text_classifier", "upgrad")
# Weights that stay what they are, by what their names hold, and why.
FROZEN = {
    "target_": "target networks follow by their own stage",
    "proxy.": "a given model says which positions of a text are hard to predict",
}
# Likewise, in one recipe.
FROZEN_IN = {"text_classifier": {"model:": "the classifier begins as a copy of it"}}
STEP = {"observation": [1.0, 0.0, 0.0], "action": [0.5], "reward": -1.0, "terminated": False}
SMALL = {
    "updates.times": 8,
    "sample.batch_size": 8,
    "replay.capacity": 500,
    "group_size": 8,
    "environment.max_steps": 20,
    "evaluation_environment.num_envs": 2,
    "evaluation.num_samples": 4,
    "prompts.batch_size": 4,
    "demonstrations.batch_size": 8,
    "evaluation.num_prompts": 8,
    "model.hidden_size": 16,
    "model.intermediate_size": 16,
}


@pytest.fixture(scope="module")
def given(tmp_path_factory):
    """``given(recipe)``: what a recipe needs beside its name, files and a base."""
    folder = tmp_path_factory.mktemp("given")
    rows = {
        "steps": [{**STEP, "next_observation": [1.0, 0.0, 0.1]}] * 8,
        "sums": [{"question": f"{n}+1?", "answer": f"so #### {n + 1}"} for n in range(40)],
        "labels": [{"prompt": f"text {n}", "a": n % 2} for n in range(80)],
    }
    for name, lines in rows.items():
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in lines))
    text = "".join(f"Line {n} of a text that is long enough.\n" for n in range(300))
    (folder / "text.txt").write_text(text)
    tokenizer = byte_tokenizer()
    tiny_model(tokenizer, intermediate_size=16, context_length=2048).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    on_text = ["task@corpus=text", f"corpus.path={folder}/text.txt", "context_length=2048"]
    words = {
        "offline_to_online": [f"dataset.path={folder}/steps.jsonl"],
        "gsm8k": [f"task.path={folder}/sums.jsonl"],
        "text_classifier": [f"task.path={folder}/labels.jsonl", "task.labels=[a]"],
        **{recipe: [f"base={folder}", *on_text] for recipe in ON_TEXT},
    }
    return lambda recipe: words.get(recipe, [])


def config_of(recipe, folder, *words):
    """The recipe, two steps of every phase, small."""
    config = compose_config([f"recipe={recipe}", f"directory={folder}/run", *words])
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


def not_frozen(recipe, names):
    frozen = FROZEN | FROZEN_IN.get(recipe, {})
    return [name for name in names if not any(part in name for part in frozen)]


@pytest.mark.slow
@pytest.mark.parametrize("recipe", LANGUAGE)
def test_every_weight_of_a_language_recipe_has_a_learner(recipe, given, tmp_path):
    made = Builder(plan_of(config_of(recipe, tmp_path, *given(recipe))), seed=0).all()

    assert learners(made)
    assert not_frozen(recipe, not_trained(made)) == []


@pytest.mark.slow
@pytest.mark.parametrize("recipe", [*sorted(CONTROL), *MOVING])
def test_every_weight_of_a_learner_moves(recipe, given, tmp_path):
    config = config_of(recipe, tmp_path, *given(recipe))
    plan = plan_of(config)
    made = Builder(plan, seed=0).all()
    assert not_trained(made) == []
    trained = {id(weight) for learner in learners(made) for weight in learner.trained}
    before = {
        name: tensor.detach().clone()
        for name, tensor in owned_tensors(made).items()
        if id(tensor) in trained
    }

    launch(config, plan)

    after = open_checkpoint(tmp_path / "run").tensors()
    assert before
    assert before.keys() <= after.keys()
    still = [name for name, tensor in before.items() if torch.equal(tensor, after[name])]
    assert not_frozen(recipe, still) == []


def test_a_critic_that_is_a_node_of_its_own_would_be_found(tmp_path):
    config = config_of("sac", tmp_path)
    # torchrl draws new weights for its stack of critics: the node's are in no optimiser.
    OmegaConf.update(config, "q_value._partial_", False)

    made = Builder(plan_of(config), seed=0).all()

    assert [name for name in not_trained(made) if name.startswith("q_value")] != []
