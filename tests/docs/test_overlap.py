"""The model of benchmarks/overlap.py, by hand: rollouts of 2 s, the rest of a step 1 s, 3 steps."""

import json
import runpy
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks" / "overlap.py"


@pytest.fixture(scope="module")
def overlap():
    return runpy.run_path(str(SCRIPT))


@pytest.mark.parametrize(
    ("settings", "end", "workers", "age"),
    [
        # Nothing beside anything: 3 s a step.
        ({"staleness": 0}, 9, 6 / 9, 0),
        # Rollouts end at 2, 4 and 6 s; the run waits until 2, learns to 3, waits to 4, 5, 6, 7.
        ({"staleness": 1}, 7, 6 / 7, 2 / 3),
        # Two requests more at first: 2, 4, 6 s as well.
        ({"staleness": 2}, 7, 6 / 7, 1),
        # Halves of 1 s each: 2 s a step.
        ({"staleness": 0, "workers": 2}, 6, 3 / 6, 0),
        # In turns: ends at 2 and 2; the third is asked for at 3, ends at 5, is learnt from to 6.
        ({"staleness": 1, "workers": 2, "splits": False}, 6, 3 / 6, 2 / 3),
        ({"staleness": 0, "transport": 0.5}, 10.5, 6 / 10.5, 0),
    ],
)
def test_events_come_as_by_hand(overlap, settings, end, workers, age):
    found = overlap["fixed"]([2, 2, 2], [1, 1, 1], **{"transport": 0.0} | settings)

    assert found.step == pytest.approx(end / 3)
    assert found.workers == pytest.approx(workers)
    assert found.learner == pytest.approx(3 / end)
    assert found.age == pytest.approx(age)


def test_times_are_those_of_steps_with_rollouts(overlap, tmp_path):
    rows = [
        {"time/step": 9.0},
        {"time/step": 3.0, "time/rollout": 1.0},
        {"time/step": 2.0, "time/rollout": 0.5, "cluster/made": 1.25},
    ]
    (tmp_path / "metrics.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))

    assert overlap["times_of"](tmp_path) == ([1.0, 1.25], [2.0, 1.5])


def test_a_run_without_rollouts_is_told(overlap, tmp_path):
    (tmp_path / "metrics.jsonl").write_text(json.dumps({"time/step": 9.0}))

    with pytest.raises(SystemExit, match=r"no step of metrics.jsonl has time/rollout"):
        overlap["times_of"](tmp_path)
