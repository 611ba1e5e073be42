"""Recipes of distillation in a small form: the student nears its teacher."""

import pytest

from rlcomp.io.json_lines import read_lines
from rlcomp.run.launch import launch
from rlcomp.wiring.compose import compose_config
from rlcomp.wiring.resolve import plan_of

pytestmark = [pytest.mark.no_cover, pytest.mark.slow]

STUDENT = ("task.length=4", "demonstrations.batch_size=64", "prompts.batch_size=128")
STUDENT += (
    "phases.teacher.steps=120",
    "phases.warm_start.steps=60",
    "phases.distillation.steps=30",
)
SELF = ("task.length=4", "phases.warm_start.steps=80", "phases.distillation.steps=20")
SELF += ("prompts.batch_size=128",)


def launched(directory, recipe, *words):
    """The metrics of a run: a row a step."""
    config = compose_config([f"recipe={recipe}", *words, f"directory={directory}"])
    launch(config, plan_of(config))
    return read_lines(directory / "metrics.jsonl")


@pytest.mark.parametrize("recipe", ["distillation", "on_policy_distillation"])
def test_a_student_nears_the_teacher_that_the_run_has_trained(recipe, tmp_path, at_work):
    rows = launched(tmp_path, recipe, *STUDENT)

    assert [*dict.fromkeys(row["phase"] for row in rows)] == [
        "teacher",
        "warm_start",
        "distillation",
    ]
    at_work(recipe, rows)


def test_a_policy_that_has_not_seen_the_solution_learns_of_one_that_has(tmp_path, at_work):
    at_work("self_distillation", launched(tmp_path, "self_distillation", *SELF))
