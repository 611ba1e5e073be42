"""The maze: credit by state finds the way and shortens it; its controls do not."""

import pytest

from rlcomp.config.compose import compose_config
from rlcomp.config.resolve import plan_of
from rlcomp.files.json_lines import read_lines
from rlcomp.run.launch import launch

pytestmark = [pytest.mark.no_cover, pytest.mark.slow]


def run(directory, *words):
    config = compose_config(["recipe=maze", f"directory={directory}", *words])
    launch(config, plan_of(config))
    return read_lines(directory / "metrics.jsonl")


SHORT = ["evaluation.samples_per_prompt=8"]


def test_the_way_is_found_and_gets_shorter(tmp_path, at_work):
    at_work("maze", run(tmp_path, *SHORT, "phases.rl.steps=14", "phases.rl.every.evaluation=14"))


DEALT_OUT = [
    "experiment=shuffled_rewards",
    "reward@true_reward=episode_return",
    # The reward alone: what the turns were paid is not dealt out.
    "advantage=gigpo",
    "+advantage._keys_={turn_reward: turn_reward_unread}",
]


def test_nothing_is_learnt_from_shuffled_rewards(tmp_path):
    few, ends = ["phases.rl.steps=8", "phases.rl.every.evaluation=8"], []
    for seed in range(3):
        rows = run(tmp_path / str(seed), *SHORT, *DEALT_OUT, *few, f"seed={seed}")
        ends.append([row["evaluation/sampled"] for row in rows if "evaluation/sampled" in row][-1])

    # With true rewards .5 and more after 6 steps. Chance moves a policy, too: seeds 0 to 5 end at
    # .44, .13, .03, .03, .07 and .08, from .14.
    assert sum(ends) / len(ends) < 0.3


TINY = ["phases.warm_start.steps=2", "phases.warm_start.every={}", "phases.rl.steps=2"]
TINY += ["phases.rl.every={}", "group_size=4", "prompts.batch_size=2"]


@pytest.mark.parametrize(
    "words",
    [
        ["advantage=group_mean_std", "environment.discount=0.9", "reward.correct_from=0.3"],
        ["collector@rollout=vine", "advantage=vine"],
        ["collector@rollout=shuffled_anchors", "advantage.baseline=others"],
    ],
    ids=" ".join,
)
def test_other_credit_works_on_it(words, tmp_path):
    rows = run(tmp_path, *TINY, *words)

    assert [row["phase"] for row in rows].count("rl") == 2
