"""Solver and verifier: both learn by the truth, as one model and as two, and not by chance."""

import shutil

import pytest

from rlcomp.config.compose import compose_config
from rlcomp.config.resolve import plan_of
from rlcomp.files.json_lines import read_lines
from rlcomp.run.launch import launch

pytestmark = [pytest.mark.no_cover, pytest.mark.slow]


def run(directory, *words):
    config = compose_config(["recipe=solver_verifier", f"directory={directory}", *words])
    launch(config, plan_of(config))
    return read_lines(directory / "metrics.jsonl")


SHORT = ["phases.rl.steps=20", "phases.rl.every.evaluation=20"]
SHORT += ["experiment=shuffled_own_rewards"]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A run that has the part which deals rewards out, and does not use it, and its metrics."""
    directory = tmp_path_factory.mktemp("solver_verifier") / "run"
    return directory, run(directory, *SHORT, "~phases.rl.insert")


def test_solver_and_verifier_are_learnt(whole, at_work):
    at_work("solver_verifier", whole[1])


def test_nothing_is_learnt_from_shuffled_rewards(whole, tmp_path):
    # From the same warm start, which needs no rewards: a second one would be it to the bit.
    place = shutil.copytree(whole[0], tmp_path / "run")
    rows = run(place, *SHORT, f"resume={place}/checkpoints/step-00000500")
    assert [row["phase"] for row in rows].count("rl") == 20

    # Seed 0: .60 and .84 become .53 and .78; with true rewards .93 and .98.
    for name in ("evaluation/right", "evaluation/verdict_right"):
        found = [row[name] for row in rows if name in row]
        assert found[-1] < found[0] + 0.05


TINY = ["phases.warm_start.steps=2", "phases.warm_start.every.evaluation=2", "phases.rl.steps=3"]
TINY += ["phases.rl.every={checkpoint: 2, evaluation: 9}", "group_size=4", "prompts.batch_size=4"]
TINY += ["evaluation.num_prompts=4", "demonstrations.batch_size=8"]


def test_two_models_learn_each_from_its_own_rows(tmp_path):
    words = [*TINY, "experiment=separate_policies"]
    whole = run(tmp_path / "whole", *words)
    last = whole[-1]

    assert 0 < last["learner/tokens"] < last["rollout/tokens"]
    assert last["learner/tokens"] + last["verifier_learner/tokens"] == last["rollout/tokens"]
    place = tmp_path / "whole" / "checkpoints" / "step-00000004"
    again = run(tmp_path / "again", *words, f"resume={place}")
    kept = [name for name in last if not name.startswith("time/")]
    assert {name: last[name] for name in kept} == {name: again[-1][name] for name in kept}


def test_a_run_that_was_stopped_goes_on_bit_for_bit(tmp_path):
    whole = run(tmp_path / "whole", *TINY)
    place = tmp_path / "whole" / "checkpoints" / "step-00000004"
    again = run(tmp_path / "again", *TINY, f"resume={place}")

    assert [row["total"] for row in again] == [5]
    kept = [name for name in whole[-1] if not name.startswith("time/")]
    assert {name: whole[-1][name] for name in kept} == {name: again[-1][name] for name in kept}
