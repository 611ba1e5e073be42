"""Recipes with a task of their own: their mechanism at work in a run that is cut short."""

import pytest

from rlcomp.config.compose import compose_config
from rlcomp.config.resolve import plan_of
from rlcomp.files.json_lines import read_lines
from rlcomp.run.launch import launch

pytestmark = [pytest.mark.no_cover, pytest.mark.slow]

STEPS = {"rlvr_code": 50, "length_controlled": 80, "several_domains": 30}


@pytest.mark.parametrize("recipe", STEPS)
def test_the_mechanism_is_at_work(recipe, tmp_path, at_work):
    steps = STEPS[recipe]
    words = [f"phases.rl.steps={steps}", f"phases.rl.every.evaluation={steps}"]
    config = compose_config([f"recipe={recipe}", *words, f"directory={tmp_path}"])

    launch(config, plan_of(config))

    at_work(recipe, read_lines(tmp_path / "metrics.jsonl"))
