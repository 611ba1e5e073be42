"""GRPO on action tokens: success rises where actions are drawn; greedily it does not."""

import shutil

import pytest

from rlcomp.config.compose import compose_config
from rlcomp.config.resolve import plan_of
from rlcomp.run.launch import launch

SHORT = [
    "recipe=action_grpo",
    "phases.clone.steps=1",
    "phases.clone.every={}",
    "phases.rl.steps=2",
    "phases.rl.every={evaluation: 2, checkpoint: 1}",
    "checkpoint.keep=9",
    "group_size=8",
    "environment.num_envs=32",
    "environment.max_steps=10",
    "environment.radius=0.2",
    "evaluation_environment.num_envs=20",
    "sft_learner.epochs=1",
]


def play(directory, *words):
    config = compose_config([*words, f"directory={directory}"])
    launch(config, plan_of(config))
    return directory


@pytest.fixture(scope="module")
def short(tmp_path_factory):
    return play(tmp_path_factory.mktemp("action") / "run", *SHORT)


def test_a_run_continued_after_a_step_is_bit_identical(bits, short, tmp_path):
    shutil.copytree(short, tmp_path / "run")

    kept = f"resume={tmp_path}/run/checkpoints/step-{2:08d}"

    assert bits(play(tmp_path / "run", *SHORT, kept)) == bits(short)


def test_the_learner_trains_on_the_tokens_of_actions(short, metrics):
    cloned, *_, last = metrics(short)

    # Two numbers an action; two epochs.
    assert last["learner/tokens"] == 2 * 2 * last["collector/frames"]
    assert cloned["sft_learner/tokens"] == 2 * cloned["collector/frames"]


@pytest.mark.parametrize(
    "words",
    [["advantage=turn_return", "advantage.outcome=false"], ["kl=in_loss", "loss=gspo"]],
    ids=str,
)
def test_advantages_of_turns_and_kl_serve_for_steps(words, tmp_path, metrics):
    rows = metrics(play(tmp_path, *SHORT, "phases.rl.every={}", *words))

    assert rows[-1]["learner/non_finite"] == 0


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_success_of_drawn_actions_rises(tmp_path, metrics, at_work, seed):
    rows = metrics(play(tmp_path, "recipe=action_grpo", f"seed={seed}"))

    found = [row["evaluation/success"] for row in rows if "evaluation/success" in row]
    assert found[0] <= 0.6
    assert found[-1] >= 0.88
    at_work("action_grpo", rows)


@pytest.mark.slow
def test_with_shuffled_rewards_it_does_not(tmp_path, metrics):
    words = ["recipe=action_grpo", "shaping=shuffled", "phases.rl.steps=30"]
    rows = metrics(play(tmp_path, *words))

    found = [row["evaluation/success"] for row in rows if "evaluation/success" in row]
    assert found[-1] <= found[0] + 0.15
