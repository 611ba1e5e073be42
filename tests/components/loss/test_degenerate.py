"""Batches that teach nothing: every loss is finite on them, and so is its gradient."""

import re
from functools import cache
from pathlib import Path

import pytest
import torch
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

from rlcomp.config.build import Builder
from rlcomp.config.plan import read
from rlcomp.testing.subject import Subject

CONF = Path(__file__).resolve().parents[3] / "conf"
# Those of control and of flows hold their networks and know neither masks nor groups.
NOT_OF_TOKENS = r"torchrl|\$\{(actor|critic)\}|flow_matching|WithoutTargetEntropy"
FILES = [
    file
    for file in (CONF / "loss").glob("*.yaml")
    if not re.search(NOT_OF_TOKENS, file.read_text())
]
LOSSES = sorted(file.stem for file in FILES)
# Of the model: what a gradient may be asked of.
OUTPUTS = (
    "log_probs",
    "entropy",
    "value",
    "log_distribution",
    "objective_values",
    "model_score",
    "token_score",
    "label_logits",
)


def equal_rewards(rows):
    """Every group has equal rewards: all advantages are exactly 0."""
    for key in {"advantage", "advantages"} & set(rows.keys()):
        rows[key] = torch.zeros_like(rows[key])
    return rows


def unjudged_group(rows):
    """Rows 0, 3 and 5, a whole group, have no valid reward."""
    valid = torch.ones(len(rows), dtype=torch.bool)
    valid[[0, 3, 5]] = False
    return rows.set("reward_valid", valid)


def nothing_judged(rows):
    return rows.set("reward_valid", torch.zeros(len(rows), dtype=torch.bool))


def all_masked(rows):
    return rows.set("response_mask", torch.zeros_like(rows["response_mask"]))


def all_truncated(rows):
    """Responses without an end, up to the last place."""
    mask = torch.arange(rows["response_mask"].shape[1]) >= 3
    rows["response_mask"] = mask.expand_as(rows["response_mask"]).clone()
    return rows.set("truncated", torch.ones(len(rows), dtype=torch.bool))


def one_token(rows):
    """A single row (or pair) of which the first has a single token: no variance, no neighbour."""
    mask = torch.zeros_like(rows["response_mask"])
    mask[0, 4] = True
    return rows.set("response_mask", mask)[: 2 if "chosen" in rows.keys() else 1]


BATCHES = [equal_rewards, unjudged_group, nothing_judged, all_masked, all_truncated, one_token]
# Nothing can be learnt from these, whatever the loss.
EMPTY = [nothing_judged, all_masked]
# The labels of steps are of the data: no reward has to judge the row.
LABELLED = [("step_labels", nothing_judged)]
# Of reward models and classifiers: they read scores a row, and no tokens.
SCORED = [
    "bradley_terry",
    "davidson",
    "multi_label",
    "ordinal_regression",
    "plackett_luce",
    "score_regression",
]
# They choose another part of the recipe, too.
OF_A_RECIPE = ("tdpo", "tdpo1")
OF_TOKENS = [all_masked, all_truncated, one_token]


@cache
def built(name):
    with initialize_config_dir(version_base="1.3", config_dir=str(CONF)):
        if name in OF_A_RECIPE:
            plan, _ = read(
                compose("config", overrides=["recipe=dpo", f"loss={name}", "directory=x"])
            )
            return Builder(plan, seed=0).build(plan.nodes["loss"])
        given = compose(overrides=[f"+loss@probe={name}", "+loss=grpo", "+kl_controller=fixed"])
    config = OmegaConf.create(OmegaConf.to_container(given, resolve=False))
    config.update(
        {
            "max_new_tokens": 8,
            "group_size": 2,
            "phases": {"main": {"steps": 0, "stages": ["probe"]}},
        }
    )
    plan, _ = read(config)
    return Builder(plan, seed=0).build(plan.nodes["probe"])


CASES = [
    pytest.param(name, make, id=f"{name}-{make.__name__}")
    for name in LOSSES
    for make in BATCHES
    if not (name in SCORED and make in OF_TOKENS)
]


@pytest.mark.parametrize(("name", "make"), CASES)
def test_loss_and_gradient_are_finite(name, make):
    loss = built(name)
    subject = Subject(loss, None)
    rows = make(subject.batch.clone())
    if name == "plackett_luce":  # the answers of a ranking stand side by side
        rows["group_id"] = torch.arange(len(rows)) // 2
    if name == "ordinal_regression":  # ratings are levels
        rows["reward"] = torch.arange(len(rows)) % 5 + 1.0
    given = {key: rows[key].detach().clone().requires_grad_() for key in OUTPUTS if key in rows}

    rows.update(given)
    rows.update(loss.prepare(loss.view(rows.detach())))
    result = loss(rows)
    total = torch.stack([value for key, value in result.items() if key.startswith("loss")]).sum()
    total.backward()

    assert bool(total.isfinite())
    gradients = [leaf.grad for leaf in given.values() if leaf.grad is not None]
    assert all(bool(gradient.isfinite().all()) for gradient in gradients)
    if make in EMPTY and (name, make) not in LABELLED:
        assert total.item() == 0.0
        assert all(not gradient.any() for gradient in gradients)
    subject.restore()
