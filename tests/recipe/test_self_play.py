"""Self-play: a KL to a moving average leads to the equilibrium; without it the players circle."""

import pytest

from rlcomp.config.compose import compose_config
from rlcomp.config.resolve import plan_of
from rlcomp.files.json_lines import read_lines
from rlcomp.run.launch import launch

pytestmark = [pytest.mark.no_cover, pytest.mark.slow]


def run(directory, *words):
    config = compose_config(["recipe=self_play", f"directory={directory}", *words])
    launch(config, plan_of(config))
    return [row for row in read_lines(directory / "metrics.jsonl") if row["phase"] == "rl"]


SHORT = ["phases.rl.steps=70"]


def test_a_moving_average_of_oneself_leads_to_the_equilibrium(tmp_path):
    kept = run(tmp_path / "kept", *SHORT)
    free = run(tmp_path / "free", *SHORT, "kl=none", "reference=none")

    # How far from the equilibrium the last 30 steps are. Whole runs: docs/how_to/self_play.md.
    late = [
        sum(row["evaluation/exploitability"] for row in rows[-30:]) / 30 for rows in (kept, free)
    ]
    assert late[0] < 0.3
    assert late[1] > late[0] + 0.15


TINY = ["phases.warm_start.steps=2", "phases.warm_start.every={}", "phases.rl.steps=3"]
TINY += ["phases.rl.every={evaluation: 1, checkpoint: 2}", "group_size=4"]


@pytest.mark.parametrize(
    "words",
    [
        ["environment_pool=processes", "environment_pool.num_workers=1"],
        ["measure=past_selves", "phases.rl.every.past_selves=1"],
        ["filter=seat", "kl=none", "reference=none", "advantage=leave_one_out"],
    ],
    ids=" ".join,
)
def test_other_parts(words, tmp_path):
    rows = run(tmp_path, *TINY, *words)

    assert len(rows) == 3
    assert all(row["self_play/reward_0"] == -row["self_play/reward_1"] for row in rows)


def test_a_run_that_was_stopped_goes_on_bit_for_bit(tmp_path):
    words = [*TINY, "measure=past_selves", "phases.rl.every.past_selves=1"]
    whole = run(tmp_path / "whole", *words)
    place = tmp_path / "whole" / "checkpoints" / "step-00000004"
    again = run(tmp_path / "again", *words, f"resume={place}")

    assert [row["total"] for row in again] == [5]
    kept = [name for name in whole[-1] if not name.startswith("time/")]
    assert {name: whole[-1][name] for name in kept} == {name: again[-1][name] for name in kept}
