"""Agents: in a run that is cut short the tool is asked and pays; its control learns nothing."""

import pytest

from rlcomp.config.compose import compose_config
from rlcomp.config.resolve import plan_of
from rlcomp.files.json_lines import read_lines
from rlcomp.run.launch import launch

pytestmark = [pytest.mark.no_cover, pytest.mark.slow]


def run(directory, *words):
    config = compose_config(["recipe=agent", f"directory={directory}", *words])
    launch(config, plan_of(config))
    return read_lines(directory / "metrics.jsonl")


SHORT = ["phases.rl.steps=12", "phases.rl.every.evaluation=12"]


def test_the_tool_is_asked_and_pays(tmp_path, at_work):
    at_work("agent", run(tmp_path, *SHORT))


def test_values_of_continuations_teach_to_ask(tmp_path):
    words = [
        "collector@rollout=vine",
        "advantage=vine",
        "group_size=4",
        "evaluation.num_prompts=64",
    ]
    words += ["phases.warm_start.steps=150", "phases.rl.steps=8", "phases.rl.every.evaluation=8"]
    rows = run(tmp_path, *words)

    told = [row["evaluation/sampled"] for row in rows if "evaluation/sampled" in row]
    # Seeds 0 to 2: .24, .24, .22 before and .57, .44, .59 after 8 steps.
    assert told[-1] > told[0] + 0.15


def test_who_is_never_told_learns_nothing(tmp_path):
    rows = run(tmp_path, *SHORT, "phases.warm_start.steps=100", "player.max_turns=1")

    told = [row["evaluation/sampled"] for row in rows if "evaluation/sampled" in row]
    assert told[-1] < 0.15


TINY = ["phases.warm_start.steps=2", "phases.warm_start.every={}", "phases.rl.steps=3"]
TINY += ["phases.rl.every={checkpoint: 2}", "rollout.group_size=4", "prompts.batch_size=4"]


@pytest.mark.parametrize(
    "words",
    [
        ["advantage=gigpo", "kl=in_reward"],
        ["advantage=turn_return", "reward=episode_return", "advantage.outcome=false"],
        ["advantage=mt_grpo", "filter=overlong"],
        ["collector@rollout=vine", "advantage=vine", "environment_pool=processes"],
        # Half of all answers are right, where otherwise none is after two steps.
        ["dynamic_sampling=refill", "kl=in_loss", "reward=regex", "reward.pattern='[a-p].*'"],
        ["collector@rollout=episodes", "reference=frozen", "old_log_probs=recomputed"],
        ["environment_pool=processes", "environment_pool.num_workers=1"],
        ["decoding.top_k=8", "decoding.replay=true", "engine.forward=transformers"],
    ],
    ids=" ".join,
)
def test_parts_of_single_turns_work_on_episodes(words, tmp_path):
    rows = run(tmp_path, *TINY, *words)

    assert [row["phase"] for row in rows].count("rl") == 3
    assert all(row["episode/turns"] >= 1 for row in rows if row["phase"] == "rl")


def test_episodes_may_be_stale(tmp_path):
    tiny = [word for word in TINY if not word.startswith("rollout.")]
    stale = ["collector@rollout=delayed", "collector@rollout.collector=episodes", "group_size=4"]

    rows = [row for row in run(tmp_path, *tiny, *stale) if row["phase"] == "rl"]

    assert [row["rollout/staleness"] for row in rows] == [0.0, 1.0, 1.0]
    assert all(row["episode/turns"] >= 1 for row in rows)


def test_a_run_that_was_stopped_goes_on_bit_for_bit(tmp_path):
    whole = run(tmp_path / "whole", *TINY)
    place = tmp_path / "whole" / "checkpoints" / "step-00000004"
    again = run(tmp_path / "again", *TINY, f"resume={place}")

    assert [row["total"] for row in again] == [5]
    kept = [name for name in whole[-1] if not name.startswith("time/")]
    assert {name: whole[-1][name] for name in kept} == {name: again[-1][name] for name in kept}
