"""The model of benchmarks/overlap.py, by hand: rollouts of 2 s, the rest of a step 1 s, 3 steps."""

import json
import math
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


def sizes(overlap, rows=2, workers=1, row=0.0):
    return overlap["Sizes"](rows, 1.0, row, 2.0, workers)


# Rows of 1 and 5 tokens in each step of the run, a decode step of 1 s, 2 s of learning.
@pytest.mark.parametrize(
    ("settings", "steps"),
    [
        # Rollouts take 5 s, and nothing is beside anything.
        ({"staleness": 0, "free": False}, [7, 7, 7]),
        # Asked for at 0: rollouts end at 5, 10; at 7 the third, which ends at 15; learnt at 17.
        ({"staleness": 1, "free": False}, [7, 5, 5]),
        # No other rows may begin: the seat that is free at 1 s stays so.
        ({"staleness": 0, "free": True}, [7, 7, 7]),
        # Seats: 1 and 5; at 1 the next 1, at 2 the next 5. Two have ended at 2: learnt at 4, when
        # 1 and 5 are asked for, which begin at 5 and 6. Four have ended at 6: learnt at 8, when 1
        # and 5 are asked for: 1 begins in the seat that is free since 7. Six have ended at 9.
        ({"staleness": 1, "free": True}, [4, 4, 3]),
    ],
)
def test_rows_come_as_by_hand(overlap, settings, steps):
    rows = [1, 5] * (3 + settings["staleness"])

    assert overlap["by_rows"](rows, sizes(overlap), **settings).steps == pytest.approx(steps)


# As above: decoding from 0 to 15 s of 17, and from 0 to 9 s of 11. Under fixed rows end at 1, 5; 6,
# 10; 11, 15, steps at 7, 12: one row of the second and of the third ended a step before its use.
# Under free rows end at 1, 2; 5, 6; 7, 9, steps at 4 and 8: that of 7 s is used a step later.
@pytest.mark.parametrize(
    ("free", "workers", "age"), [(False, 15 / 17, 2 / 6), (True, 9 / 11, 1 / 6)]
)
def test_busy_workers_and_ages_come_as_by_hand(overlap, free, workers, age):
    found = overlap["by_rows"]([1, 5] * 4, sizes(overlap), staleness=1, free=free)

    assert found.workers == pytest.approx(workers)
    assert found.age == pytest.approx(age)


def test_the_spread_is_that_of_the_mean_and_of_what_was_cut(overlap):
    # Half is cut at 100: the median. For sigma 1 the mean is 100 (exp(1/2) cdf(-1) + 1/2).
    found = overlap["spread_of"](100 * (math.exp(0.5) * 0.158655254 + 0.5), 0.5, 100)

    assert found == pytest.approx((math.log(100), 1.0), abs=1e-6)


@pytest.mark.parametrize(
    ("seconds", "row", "beside"),
    [([3, 5], 0.2, 1.0), ([1, 3], 2 / 15, 0.0), ([5, 3], 0.0, 4.0), ([2, 2], 0.0, 2.0)],
)
def test_a_line_through_the_steps_says_what_a_token_takes(overlap, seconds, row, beside):
    assert overlap["_line"]([10, 20], seconds) == pytest.approx((row, beside))
    assert overlap["_line"]([10, 10], [1, 3]) == pytest.approx((0.2, 0.0))


def run_of(folder, *changes):
    rows = [
        {
            **{"time/step": 3.0, "time/rollout": 1.0, "rollout/tokens": 8.0, "rollout/length": 4.0},
            **{"rollout/truncated": 0.0, **change},
        }
        for change in changes
    ]
    (folder / "metrics.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    (folder / "run.yaml").write_text("config: {max_new_tokens: 16}")
    return folder


def test_sizes_and_lengths_are_those_of_the_run(overlap, tmp_path):
    found, lengths = overlap["shape_of"](run_of(tmp_path, {}, {}), 3, sigma=0.0)

    assert found == overlap["Sizes"](2, 0.0, 0.125, 2.0, 3)
    assert lengths == [4] * (2 * (2 + 4))
    # 3 s for 8 tokens and 5 s for 16 are 0.25 s a token and 1 s beside them, in 6 decode steps.
    two = run_of(
        tmp_path,
        {"time/rollout": 3.0},
        {"time/rollout": 5.0, "rollout/tokens": 16.0, "rollout/length": 8.0},
    )
    found, lengths = overlap["shape_of"](two, 1, sigma=0.0)
    assert set(lengths) == {6}
    assert (found.rows, found.row) == (2, pytest.approx(0.25))
    assert found.step == pytest.approx(1 / 6)


def test_without_a_spread_only_fixed_is_told(overlap, tmp_path, capsys):
    overlap["report"](run_of(tmp_path, {}, {}), 1)

    told = capsys.readouterr().out
    assert told.count("| fixed |") == 4
    assert told.endswith("give the spread of lengths, --sigma 1\n")
    overlap["report"](run_of(tmp_path, {"rollout/truncated": 0.1}, {}), 1)
    assert capsys.readouterr().out.count("| free |") == 3


@pytest.mark.parametrize("name", ["rollout/tokens", "rollout/length", "rollout/truncated"])
def test_nor_is_more_told_of_a_run_without_lengths(overlap, tmp_path, capsys, name):
    run = run_of(tmp_path, {}, {"rollout/truncated": 0.1})
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    del lines[1][name]  # as of the search for proofs
    (run / "metrics.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))

    overlap["report"](run, 1)

    told = capsys.readouterr().out
    assert told.count("| fixed |") == 4
    assert told.endswith("the steps have no lengths of responses (rollout/length)\n")


def test_each_row_takes_its_share_of_a_decode_step(overlap):
    # Two rows: 1 + 2 * 0.5 s; then one: 1.5 s, four times; then 2 s of learning.
    found = overlap["by_rows"]([1, 5], sizes(overlap, row=0.5), staleness=0, free=False)

    assert found.steps == pytest.approx([2 + 4 * 1.5 + 2])


def test_rows_are_dealt_out(overlap):
    # Workers of one seat each: 3 and 5 tokens beside one another.
    found = overlap["by_rows"]([3, 5], sizes(overlap, workers=2), staleness=0, free=True)

    assert found.steps == pytest.approx([5 + 2])


def test_refilled_seats_gain_where_tails_are_long(overlap):
    long = overlap["tailed"](50, 1.0, 16 * 12, 400)
    of = overlap["Sizes"](16, 0.01, 0.0001, 0.3, 1)
    fixed, free = (
        sum(overlap["by_rows"](long, of, staleness=1, free=f).steps) for f in (False, True)
    )

    assert fixed / free > 1.5
