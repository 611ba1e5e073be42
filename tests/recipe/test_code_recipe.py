"""Reinforcement learning from code that runs: a whole run in the sandbox."""

import pytest

from rlcomp.io.json_lines import read_lines
from rlcomp.run.launch import launch
from rlcomp.wiring.compose import compose_config
from rlcomp.wiring.resolve import plan_of

pytestmark = [pytest.mark.no_cover, pytest.mark.slow]


def test_the_code_recipe_improves_on_its_warm_start(tmp_path, at_work, sandbox):
    words = ["recipe=rlvr_code", "phases.rl.steps=100", "phases.rl.every.evaluation=100"]
    config = compose_config([*words, f"directory={tmp_path}"])

    launch(config, plan_of(config))

    at_work("rlvr_code", read_lines(tmp_path / "metrics.jsonl"))
