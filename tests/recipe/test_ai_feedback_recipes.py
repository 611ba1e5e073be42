"""AI feedback in a small form: a policy that judges, criticises and revises its own answers."""

import pytest

from rlcomp.config.compose import compose_config
from rlcomp.config.resolve import plan_of
from rlcomp.files.json_lines import read_lines
from rlcomp.run.launch import launch

pytestmark = [pytest.mark.no_cover, pytest.mark.slow]

SMALL = ("task.length=4", "verdicts.length=4", "evaluation.num_prompts=128")
SMALL += ("demonstrations.batch_size=64",)


def launched(directory, *words):
    """The metrics of a run: a row a step."""
    config = compose_config([*words, f"directory={directory}"])
    launch(config, plan_of(config))
    return read_lines(directory / "metrics.jsonl")


def sampled(rows):
    return [row["evaluation/sampled"] for row in rows if "evaluation/sampled" in row]


def test_a_policy_learns_from_its_own_verdicts_and_against_opposite_ones(tmp_path, at_work):
    words = ("recipe=self_rewarding", *SMALL, "phases.warm_start.steps=250")

    at_work("self_rewarding", launched(tmp_path / "run", *words))

    opposite = sampled(launched(tmp_path / "opposite", *words, "verdicts.flawed=1"))
    assert opposite[-1] < opposite[0]


def test_revisions_and_then_judgements_make_answers_keep_to_the_principle(tmp_path, at_work):
    words = ("revisions.length=4", "phases.warm_start.steps=450", "phases.reward_model.steps=60")
    words += ("phases.rl.steps=15", "phases.rl.every={evaluation: 15}")
    words += ("~phases.reward_model.every",)

    at_work("constitutional", launched(tmp_path, "recipe=constitutional", *SMALL, *words))


def test_easy_pairs_teach_before_a_judge_is_asked(tmp_path, at_work):
    words = ("task.length=4", "evaluation.num_prompts=128", "demonstrations.batch_size=128")
    words += ("phases.warm_start.steps=150", "phases.rl.steps=15")
    words += ("phases.rl.every={evaluation: 15}",)

    at_work("curriculum_rlaif", launched(tmp_path, "recipe=curriculum_rlaif", *words))
