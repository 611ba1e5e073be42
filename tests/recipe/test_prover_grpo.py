"""A prover that is told why its proof failed learns to repair it, and not by chance."""

import shutil

import pytest

from rlcomp.config.compose import compose_config
from rlcomp.config.resolve import plan_of
from rlcomp.files.json_lines import read_lines
from rlcomp.run.launch import launch

pytestmark = [pytest.mark.no_cover, pytest.mark.slow]


def run(directory, *words):
    config = compose_config(["recipe=prover_grpo", f"directory={directory}", *words])
    launch(config, plan_of(config))
    return read_lines(directory / "metrics.jsonl")


SHORT = ["phases.rl.steps=20", "phases.rl.every.evaluation=20", "evaluation.num_prompts=128"]
SHORT += ["experiment=shuffled_own_rewards"]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A run that has the part which deals rewards out, and does not use it, and its metrics."""
    directory = tmp_path_factory.mktemp("prover") / "run"
    return directory, run(directory, *SHORT, "~phases.rl.insert")


def test_first_attempts_and_repairs_are_learnt(whole, at_work):
    at_work("prover_grpo", whole[1])


def test_nothing_is_learnt_from_shuffled_rewards(whole, tmp_path):
    # From the same warm start, which needs no rewards: a second one would be it to the bit.
    place = shutil.copytree(whole[0], tmp_path / "run")
    started = f"resume={place}/checkpoints/step-00000200"
    rows = run(place, *SHORT, started)
    assert [row["phase"] for row in rows].count("rl") == 20

    found = [row["evaluation/sampled"] for row in rows if "evaluation/sampled" in row]
    assert found[-1] < found[0] + 0.05


TINY = ["phases.warm_start.steps=2", "phases.warm_start.every.evaluation=2", "phases.rl.steps=3"]
TINY += ["phases.rl.every={checkpoint: 2, evaluation: 9}", "group_size=4", "prompts.batch_size=4"]
TINY += ["evaluation.num_prompts=4", "demonstrations.batch_size=8"]


@pytest.mark.parametrize(
    "words",
    [
        ["environment.attempts=3", "player.max_turns=3", "environment.tells=nothing"],
        ["advantage=turn_return", "advantage.outcome=false", "environment_pool=processes"],
    ],
    ids=" ".join,
)
def test_other_parts(words, tmp_path):
    rows = run(tmp_path, *TINY, *words)

    assert [row["phase"] for row in rows].count("rl") == 3


def test_a_run_that_was_stopped_goes_on_bit_for_bit(tmp_path):
    whole = run(tmp_path / "whole", *TINY)
    place = tmp_path / "whole" / "checkpoints" / "step-00000004"
    again = run(tmp_path / "again", *TINY, f"resume={place}")

    assert [row["total"] for row in again] == [5]
    kept = [name for name in whole[-1] if not name.startswith("time/")]
    assert {name: whole[-1][name] for name in kept} == {name: again[-1][name] for name in kept}
