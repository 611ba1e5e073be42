"""Recipes of distillation in a small form: the student nears its teacher."""

from statistics import mean

import pytest

from rlcomp.config.compose import compose_config
from rlcomp.config.resolve import plan_of
from rlcomp.files.json_lines import read_lines
from rlcomp.run.launch import launch

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


def test_a_student_learns_the_rules_of_two_specialists(tmp_path):
    words = ("up.length=4", "down.length=4", "experiment=domain_teachers", *STUDENT[1:])
    words += (
        "phases.down_teacher.steps=120",
        "~phases.down_teacher.every",
        "~phases.teacher.every",
    )

    rows = launched(tmp_path, "on_policy_distillation", *words)

    assert [*dict.fromkeys(row["phase"] for row in rows)] == [
        "teacher",
        "warm_start",
        "down_teacher",
        "distillation",
    ]
    apart = [row["distil/divergence"] for row in rows if "distil/divergence" in row]
    assert apart[-1] < 0.65 * apart[0]
    for domain in ("up", "down"):
        found = [row[key] for row in rows if (key := f"evaluation/{domain}/sampled") in row]
        assert found[-1] > found[0] + 0.05


def test_a_student_of_characters_learns_of_a_teacher_of_bytes(tmp_path):
    rows = launched(tmp_path, "on_policy_distillation", "experiment=teacher_of_bytes", *STUDENT)

    # Nats a token that the student is more certain than the teacher; of one batch it is noisy.
    apart = [row["kl/reference"] for row in rows if "kl/reference" in row]
    assert mean(apart[-5:]) < 0.85 * mean(apart[:5])
