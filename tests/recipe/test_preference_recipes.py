"""Recipes of preferences in a small form: sorting four digits, each by its own mechanism."""

import pytest

from rlcomp.config.compose import compose_config
from rlcomp.config.resolve import plan_of
from rlcomp.files.json_lines import read_lines
from rlcomp.run.launch import launch

pytestmark = [pytest.mark.no_cover, pytest.mark.slow]

SMALL = (
    "task.length=4",
    "phases.warm_start.steps=50",
    "phases.preference.steps=20",
    "demonstrations.batch_size=64",
    "evaluation.num_prompts=64",
)
PAIRS = ("task.position=3", "pairs.batch_size=64")


def launched(directory, *words):
    """The metrics of a run: a row a step."""
    config = compose_config([*SMALL, *words, f"directory={directory}"])
    launch(config, plan_of(config))
    return read_lines(directory / "metrics.jsonl")


@pytest.mark.parametrize(
    ("recipe", "own"),
    [("dpo", PAIRS), ("step_dpo", PAIRS), ("online_dpo", ("prompts.batch_size=32",))],
)
def test_the_mechanism_of_a_recipe_is_at_work(tmp_path, at_work, recipe, own):
    at_work(recipe, launched(tmp_path, f"recipe={recipe}", *own))


@pytest.mark.parametrize("words", [("loss=kto",), ("loss=tdpo",)])
def test_other_losses_widen_the_margin_as_well(tmp_path, words):
    few = ("phases.warm_start.steps=20", "phases.preference.steps=10", "evaluation.num_prompts=8")

    rows = launched(tmp_path, "recipe=dpo", *PAIRS, *words, *few)

    change = [rows[-1][f"held_out/{side}_change"] for side in ("chosen", "rejected")]
    assert change[0] - change[1] > 0.1


def test_dpop_keeps_chosen_answers_as_likely_as_they_were(tmp_path):
    last = launched(tmp_path, "recipe=dpo", *PAIRS, "loss=dpop")[-1]

    assert last["held_out/chosen_change"] > 0
    assert last["held_out/margin"] > 0.3
