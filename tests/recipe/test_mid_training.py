"""Mid-training and Magistral in a small form, each beside a run that lacks its mechanism."""

import pytest

from rlcomp.config.compose import compose_config
from rlcomp.config.resolve import plan_of
from rlcomp.files.json_lines import read_lines
from rlcomp.run.launch import launch

pytestmark = [pytest.mark.no_cover, pytest.mark.slow]


def launched(directory, *words):
    """The metrics of a run: a row a step."""
    config = compose_config([*words, "evaluation.num_prompts=128", f"directory={directory}"])
    launch(config, plan_of(config))
    return read_lines(directory / "metrics.jsonl")


def last(rows, name):
    return [row[name] for row in rows if name in row][-1]


def test_rl_reinforces_what_mid_training_showed_and_nothing_without_it(tmp_path, at_work):
    words = ["recipe=mid_training", "task.length=5", "short.length=4", "long.length=6"]
    words += ["demonstrations.batch_size=64", "mid_training_batches.batch_size=64"]
    words += ["prompts.batch_size=32", "phases.pretraining.steps=50"]
    words += ["phases.rl.steps=20", "phases.rl.every={evaluation: 20}"]

    at_work("mid_training", launched(tmp_path / "run", *words, "phases.mid_training.steps=150"))

    none = ["phases.mid_training=null", "phases.rl.after=pretraining", "phases.rl.steps=5"]
    without = launched(tmp_path / "none", *words, *none, "phases.rl.every={evaluation: 5}")
    assert last(without, "evaluation/sampled") < 0.05


def test_the_language_term_decides_the_script(tmp_path, at_work):
    words = [
        "recipe=magistral",
        "task.length=4",
        "max_new_tokens=6",
        "reward.weights.language=0.3",
        "phases.warm_start.steps=120",
    ]
    words += ["phases.rl.steps=45", "phases.rl.every={evaluation: 45}", "prompts.batch_size=32"]

    at_work("magistral", launched(tmp_path, *words))


def test_a_weighted_sum_that_is_dealt_out_to_random_rows_teaches_nothing(tmp_path, at_work):
    words = ["recipe=magistral", "experiment=shuffled_own_rewards", "task.length=4"]
    words += ["max_new_tokens=6", "phases.warm_start.steps=80", "prompts.batch_size=16"]
    words += ["phases.rl.steps=10", "phases.rl.every={evaluation: 10}"]

    rows = launched(tmp_path, *words)

    at_work("shuffled_rewards", rows)
    # There was something to deal out.
    assert max(row["reward/right"] for row in rows if "reward/right" in row) > 0.1
