"""Expert iteration: searches find proofs, training on them finds more; shuffled verdicts do not."""

import pytest

from rlcomp.config.compose import compose_config
from rlcomp.config.resolve import plan_of
from rlcomp.files.json_lines import read_lines
from rlcomp.run.launch import launch

pytestmark = [pytest.mark.no_cover, pytest.mark.slow]


def run(directory, *words):
    config = compose_config(["recipe=expert_iteration", f"directory={directory}", *words])
    launch(config, plan_of(config))
    return read_lines(directory / "metrics.jsonl")


# Two rounds of three.
SHORT = ["phases.search3=null", "phases.expert3=null", "evaluation.num_prompts=64"]
SHUFFLED = ["+reward@true_reward=on_proof", "reward=shuffled", "reward.reward='${true_reward}'"]


def test_two_rounds_of_searches_prove_more(tmp_path, at_work):
    at_work("expert_iteration", run(tmp_path, *SHORT))


def test_nothing_is_learnt_from_shuffled_verdicts(tmp_path):
    rows = run(tmp_path, *SHORT, "phases.search2=null", "phases.expert2=null", *SHUFFLED)

    solved = [row["evaluation/solved"] for row in rows if "evaluation/solved" in row]
    assert solved[-1] < solved[0] + 0.05


TINY = ["prompts.batch_size=4", "evaluation.num_prompts=4", "demonstrations.batch_size=8"]
TINY += ["prover.max_calls=8", "replay.batch_size=8", "store.choose=all"]
TINY += [f"phases.{name}.steps=2" for name in ("warm_start", "search", "expert")]
TINY += [f"phases.{name}=null" for name in ("search3", "expert3")]
TINY += ["phases.expert2.steps=2", "phases.search2.steps=2"]


@pytest.mark.parametrize("search", ["mcts", "rmaxts", "sampling"])
def test_other_searches(search, tmp_path):
    rows = run(tmp_path, *TINY, f"search={search}")

    assert [row["phase"] for row in rows].count("search2") == 2


def test_a_run_that_was_stopped_goes_on_bit_for_bit(tmp_path):
    every = ["phases.search.every.checkpoint=1", "phases.expert.every.checkpoint=1"]
    whole = run(tmp_path / "whole", *TINY, *every, "checkpoint.keep=20")
    assert len(whole) == 10
    for total in (3, 5):  # within the first search, and within the first training on its proofs
        place = tmp_path / "whole" / "checkpoints" / f"step-{total:08}"
        again = run(tmp_path / f"again{total}", *TINY, *every, f"resume={place}")

        assert [row["total"] for row in again] == [*range(total + 1, 11)]
        for before, after in zip(whole[total:], again, strict=True):
            kept = [name for name in before if not name.startswith("time/")]
            assert {name: before[name] for name in kept} == {name: after[name] for name in kept}
