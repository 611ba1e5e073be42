"""Small real runs in which each objective has a gradient of its own."""

import re

import pytest
import torch
from hydra.utils import instantiate
from omegaconf import OmegaConf

from rlcomp.checkpoint.reader import open_checkpoint
from rlcomp.config.compose import compose_config
from rlcomp.config.options import config_directory
from rlcomp.config.resolve import plan_of
from rlcomp.errors import ConfigErrors
from rlcomp.pareto.aggregator import Objectives

SMALL = ["recipe=upgrad", "model.hidden_size=16", "model.intermediate_size=16"]


@pytest.mark.slow
@pytest.mark.parametrize("aggregator", [[], ["learner.aggregator.row_norm=ema"]])
def test_a_run_continued_in_the_middle_is_bit_identical(
    play, bits, continued, tmp_path, aggregator
):
    whole = play(tmp_path / "whole", *SMALL, *aggregator)

    again = continued(whole, tmp_path / "again", 4, *SMALL, *aggregator)

    assert bits(again) == bits(whole)


# cvxpy's, on the programme that torchjd writes.
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:You are solving a parameterized problem")
@pytest.mark.parametrize(
    "aggregator", ["mgda", "pcgrad", "cagrad", "nash_mtl", "linear", "pama", "imtl_g"]
)
def test_any_aggregator_weighs_the_gradients(play, metrics, tmp_path, aggregator):
    chosen = f"pareto@learner.aggregator={aggregator}"

    rows = metrics(play(tmp_path / "run", *SMALL, "phases.rl.steps=1", chosen))

    assert rows[-1]["pareto/jacobian_mib"] > 0
    assert rows[-1]["learner/grad_norm"] > 0


def test_any_recipe_takes_a_third_objective_on_adapters(play, metrics, tmp_path):
    chosen = ["recipe=grpo", "+objective=[brevity,format]", "objectives.parts.format.pattern='1'"]
    chosen += ["advantage=per_objective", "learner=per_objective", "learner.compared=lora_"]

    run = play(tmp_path / "run", *chosen, "adapter=lora", "phases.rl.steps=3")

    last, saved = metrics(run)[-1], open_checkpoint(run).tensors()
    assert last["loss/kl"] >= 0
    size = sum(t.numel() for n, t in saved.items() if re.match("model.*lora_", n))
    assert last["pareto/jacobian_mib"] == pytest.approx(3 * size * 4 / 2**20)


def test_the_learner_says_who_writes_what_it_needs():
    config = compose_config(["recipe=linear_mo", "learner=per_objective", "directory=x"])

    with pytest.raises(ConfigErrors, match=r"'advantages'.*choose advantage=per_objective"):
        plan_of(config)


def conflict_rate(aggregator):
    """How often the combination goes against a gradient, where their norms differ widely."""
    draw, lengths = torch.Generator().manual_seed(0), torch.tensor([0.01, 1.0, 1.0, 50.0])
    against = 0
    for _ in range(100):
        rows = torch.randn(4, 8, generator=draw, dtype=torch.float64)
        rows *= (lengths / rows.norm(dim=1))[:, None]
        objectives = Objectives(tuple("abcd"), torch.zeros(4), rows.mean(1), rows @ rows.T)
        along = rows @ (aggregator.weigh(objectives) @ rows)
        against += bool((along < -1e-12).any())
    return against / 100


def test_upgrad_as_chosen_goes_against_no_gradient_and_with_raw_rows_against_most():
    option = OmegaConf.load(config_directory() / "pareto" / "upgrad.yaml")

    # With raw rows torchjd's regularisation is large beside the short ones: measured 81 of 100.
    assert conflict_rate(instantiate(option)) == 0
    assert conflict_rate(instantiate(option, row_norm="none")) > 0.6
