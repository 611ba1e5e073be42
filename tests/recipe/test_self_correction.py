"""Self-correction: in a run that is cut short a verdict is heeded; without one nothing is."""

import pytest

from rlcomp.config.compose import compose_config
from rlcomp.config.resolve import plan_of
from rlcomp.files.json_lines import read_lines
from rlcomp.run.launch import launch

pytestmark = [pytest.mark.no_cover, pytest.mark.slow]

SHORT = [
    "task.heeded=0.6",
    "phases.warm_start.steps=200",
    "phases.warm_start.every={evaluation: 200}",
    "phases.rl.steps=20",
    "phases.rl.every={evaluation: 20}",
    "evaluation.num_prompts=128",
]


def run(directory, *words):
    config = compose_config(["recipe=self_correction", f"directory={directory}", *SHORT, *words])
    launch(config, plan_of(config))
    return read_lines(directory / "metrics.jsonl")


def test_a_verdict_is_heeded(tmp_path, at_work):
    at_work("self_correction", run(tmp_path))


def test_without_a_verdict_a_second_attempt_is_no_better_than_the_first(tmp_path):
    few = ["phases.warm_start.steps=100", "phases.warm_start.every={}", "phases.rl.steps=6"]
    rows = run(tmp_path, *few, "phases.rl.every={}", "environment.tells=nothing")

    gains = [row["facts/helped"] - row["facts/hurt"] for row in rows if row["phase"] == "rl"]
    # Of 1,536 episodes; with a verdict it is above 0.2.
    assert abs(sum(gains) / len(gains)) < 0.1
