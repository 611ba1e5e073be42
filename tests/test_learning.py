"""The main job in a small form: it learns, its control does not."""

import pytest

from rlcomp.files.json_lines import read_lines

pytestmark = pytest.mark.no_cover

# Sorting four digits: 6 to 8 seconds each.
SMALL = (
    "task.length=4",
    "phases.warm_start.steps=50",
    "demonstrations.batch_size=64",
    "prompts.batch_size=32",
    "group_size=8",
)


def accuracies(rlcomp, directory, recipe, steps):
    length = (f"phases.rl.steps={steps}", f"phases.rl.every.evaluation={steps}")
    assert rlcomp(f"recipe={recipe}", f"directory={directory}", *SMALL, *length) == 0
    rows = read_lines(directory / "metrics.jsonl")
    return [row["evaluation/sampled"] for row in rows if "evaluation/sampled" in row]


@pytest.mark.slow
def test_grpo_improves_on_its_warm_start(rlcomp, tmp_path):
    before, after = accuracies(rlcomp, tmp_path, "grpo", 30)

    # The setting of tests/recipe/test_recipes_learn.py: this recipe's accuracy rose by .34 in one
    # run, that of 18 recipes in 33 runs by mean .31, sd .04, least .24: 5 sd above the bound.
    assert after > before + 0.1


@pytest.mark.slow
def test_shuffled_rewards_teach_nothing(rlcomp, tmp_path):
    before, after = accuracies(rlcomp, tmp_path, "shuffled_rewards", 20)

    # Over 10 runs (10 seeds, 3 engines, one with two threads) accuracy fell by mean .135, sd .036,
    # least .065: the bound is 5.1 sd away. Within 30 steps true rewards raise it by .34.
    assert after < before + 0.05


@pytest.mark.slow
def test_the_demo_learns_to_sort(rlcomp, tmp_path):
    # 60 of its 150 steps.
    length = ("phases.rl.steps=60", "phases.rl.every.evaluation=60")
    assert rlcomp(f"directory={tmp_path}", *length) == 0

    last = read_lines(tmp_path / "metrics.jsonl")[-1]
    # Sampled accuracy was mean .94, sd .024, least .89 in 6 runs (6 seeds, 3 engines), and mean
    # .94, sd .020 in 60: with the other recipes in the same setting, in experiments/recipes.
    # .78 is 6.5 and 8 sd below. After the warm start it is .54 to .63.
    assert last["evaluation/sampled"] >= 0.78


@pytest.mark.slow
def test_gsm8k_runs_from_a_file_to_logged_samples(rlcomp, tmp_path, shared_data, at_work):
    path = shared_data / "math" / "gsm8k_train_2000.jsonl.gz"

    assert rlcomp("recipe=gsm8k", f"task.path={path}", f"directory={tmp_path}") == 0

    rows = read_lines(tmp_path / "metrics.jsonl")
    assert len(rows) == 25
    at_work("gsm8k", rows)
    assert len(read_lines(tmp_path / "samples.jsonl")) == 8
