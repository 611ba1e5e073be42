"""Outside agents in a run: what they are told pays, and a run that was stopped goes on the same."""

import pytest

from rlcomp.config.compose import compose_config
from rlcomp.config.resolve import plan_of
from rlcomp.files.json_lines import read_lines
from rlcomp.run.launch import launch

pytestmark = [pytest.mark.no_cover, pytest.mark.slow]


def run(directory, *words):
    config = compose_config(["recipe=traces", f"directory={directory}", *words])
    launch(config, plan_of(config))
    return read_lines(directory / "metrics.jsonl")


def test_a_script_that_knows_nothing_of_us_is_trained(tmp_path, at_work):
    words = ["phases.warm_start.steps=180", "phases.rl.steps=10", "phases.rl.every.evaluation=10"]

    at_work(
        "traces", run(tmp_path, *words, "evaluation.num_prompts=64", "agent_pool.num_workers=1")
    )


TINY = ["phases.warm_start.steps=2", "~phases.warm_start.every.evaluation", "group_size=4"]
TINY += ["~phases.warm_start.every.checkpoint", "phases.rl.steps=3", "prompts.batch_size=4"]
TINY += ["phases.rl.every.checkpoint=2", "phases.rl.every.evaluation=3", "evaluation.num_prompts=4"]
TINY += ["agent_pool=in_process", "player.wait=30"]


def test_a_run_that_was_stopped_goes_on_bit_for_bit(tmp_path):
    whole = run(tmp_path / "whole", *TINY)
    place = tmp_path / "whole" / "checkpoints" / "step-00000004"
    again = run(tmp_path / "again", *TINY, f"resume={place}")

    assert [row["total"] for row in again] == [5]
    kept = [name for name in whole[-1] if not name.startswith("time/")]
    assert {name: whole[-1][name] for name in kept} == {name: again[-1][name] for name in kept}


@pytest.mark.parametrize(
    "words",
    [
        ["agent=folding", "advantage=turn_return"],
        ["agent=folding", "advantage=gigpo", "kl=in_loss"],
        ["reward=exact_match", "filter=overlong", "old_log_probs=recomputed"],
        ["decoding.top_k=8", "decoding.replay=true", "engine.forward=transformers"],
    ],
    ids=" ".join,
)
def test_other_parts_work_on_traces(words, tmp_path):
    rows = [row for row in run(tmp_path, *TINY, *words) if row["phase"] == "rl"]

    assert len(rows) == 3
    assert all(row["episode/failed"] == 0 for row in rows)
    if "agent=folding" in words:
        # A fold is a row of its own; each episode counts once all the same.
        assert max(row["facts/rows"] for row in rows) > 1
        assert all(row["rollout/tokens"] == 16 * row["rollout/length"] for row in rows)
