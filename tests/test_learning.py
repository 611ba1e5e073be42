"""The main job in a small form: it learns, its control does not."""

import pytest

from rlcomp.report.summary import read_lines

pytestmark = pytest.mark.no_cover

# Sorting four digits: 10 to 12 seconds each on two busy cores.
SMALL = (
    "task.length=4",
    "phases.warm_start.steps=50",
    "phases.rl.steps=40",
    "phases.rl.every.evaluation=40",
    "demonstrations.batch_size=64",
    "prompts.batch_size=32",
    "rollout.group_size=8",
)


def accuracies(rlcomp, directory, recipe, seed):
    code = rlcomp(f"recipe={recipe}", f"seed={seed}", f"directory={directory}", *SMALL)
    assert code == 0
    rows = read_lines(directory / "metrics.jsonl")
    return [row["evaluation/sampled"] for row in rows if "evaluation/sampled" in row]


@pytest.mark.parametrize("seed", [0, 1])
def test_grpo_improves_on_its_warm_start(rlcomp, tmp_path, seed):
    before, after = accuracies(rlcomp, tmp_path, "grpo", seed)

    assert after > before + 0.1


def test_shuffled_rewards_teach_nothing(rlcomp, tmp_path):
    before, after = accuracies(rlcomp, tmp_path, "shuffled_rewards", 0)

    assert after < before


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1])
def test_the_demo_reaches_its_goal(rlcomp, tmp_path, seed):
    assert rlcomp(f"seed={seed}", f"directory={tmp_path}") == 0

    last = read_lines(tmp_path / "metrics.jsonl")[-1]
    assert last["evaluation/greedy"] >= 0.95
    assert last["evaluation/sampled"] >= 0.90


@pytest.mark.slow
def test_gsm8k_runs_from_a_file_to_logged_samples(rlcomp, tmp_path, shared_data):
    path = shared_data / "math" / "gsm8k_train_2000.jsonl.gz"

    assert rlcomp("recipe=gsm8k", f"task.path={path}", f"directory={tmp_path}") == 0

    assert len(read_lines(tmp_path / "metrics.jsonl")) == 25
    assert len(read_lines(tmp_path / "samples.jsonl")) == 8
