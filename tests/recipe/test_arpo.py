"""ARPO: episodes branch, and the tool is learnt; who is never told branches and learns nothing."""

import pytest

from rlcomp.config.compose import compose_config
from rlcomp.config.resolve import plan_of
from rlcomp.files.json_lines import read_lines
from rlcomp.run.launch import launch

pytestmark = [pytest.mark.no_cover, pytest.mark.slow]


def run(directory, *words):
    config = compose_config(["recipe=arpo", f"directory={directory}", *words])
    launch(config, plan_of(config))
    return read_lines(directory / "metrics.jsonl")


SHORT = ["phases.rl.steps=12", "phases.rl.every.evaluation=12", "evaluation.num_prompts=64"]


def test_episodes_branch_and_the_tool_pays(tmp_path, at_work):
    at_work("arpo", run(tmp_path, *SHORT))


def test_who_is_never_told_branches_nowhere_and_learns_nothing(tmp_path):
    rows = run(tmp_path, *SHORT, "phases.warm_start.steps=100", "player.max_turns=1")

    told = [row["evaluation/sampled"] for row in rows if "evaluation/sampled" in row]
    assert told[-1] < 0.15
    assert {row["branching/branches"] for row in rows if row["phase"] == "rl"} == {0.0}


TINY = ["phases.warm_start.steps=2", "phases.warm_start.every.evaluation=2", "phases.rl.steps=3"]
TINY += ["phases.rl.every={checkpoint: 2, evaluation: 9}", "group_size=4", "prompts.batch_size=4"]
TINY += ["evaluation.num_prompts=4"]


@pytest.mark.parametrize(
    "words",
    [
        ["attribution=hard", "branching=always", "kl=in_reward"],
        [
            "rollout.fill=false",
            "attribution=share",
            "advantage.baseline=others",
            "loss/weight=tis",
            "old_log_probs=recomputed",
        ],
        ["branching=none", "environment_pool=processes", "environment_pool.num_workers=1"],
        ["dynamic_sampling=refill", "reward=regex", "reward.pattern='[a-p].*'"],
        ["decoding.top_k=8", "decoding.replay=true", "engine.forward=transformers"],
    ],
    ids=" ".join,
)
def test_other_parts_work_on_trees(words, tmp_path):
    rows = run(tmp_path, *TINY, *words)

    assert [row["phase"] for row in rows].count("rl") == 3


@pytest.mark.parametrize("attribution", ["hard", "share"])
def test_a_run_that_was_stopped_goes_on_bit_for_bit(attribution, tmp_path):
    words = [*TINY, f"attribution={attribution}", "reward=regex", "reward.pattern='[a-h].*'"]
    whole = run(tmp_path / "whole", *words)
    place = tmp_path / "whole" / "checkpoints" / "step-00000004"
    again = run(tmp_path / "again", *words, f"resume={place}")

    assert [row["total"] for row in again] == [5]
    kept = [name for name in whole[-1] if not name.startswith("time/")]
    assert {name: whole[-1][name] for name in kept} == {name: again[-1][name] for name in kept}
