"""Positions of runs: what may be saved of one, and where in its phases it lies."""

import copy
from pathlib import Path

import pytest

from rlcomp.checkpoint.position import check_position, check_within, parse_step, step_name
from rlcomp.errors import CheckpointError

MARK = "0" * 64
ENDED = {"phase": "one", "reason": "done", "total": 2, "step": 2, "steps": 9, "best": None}
BEST = {"phase": "one", "metric": "m", "better": "higher", "value": 0.5, "step": 1, "total": 3}
WHOLE = {
    "phase": 0,
    "step": 3,
    "total": 3,
    "seed": 0,
    "inputs": {"task": {"file": MARK}},
    "trackers": {
        "json_lines": {
            "metrics": 20,
            "samples": 0,
            "ended": [ENDED],
            "digests": {"metrics": [[1, MARK], [20, MARK]], "samples": []},
        },
        "wandb": {"id": "a-b_c", "spent": {"x": 0.0}, "best": {"x": -1.0}},
        "mine": {"anything": object},
    },
    "best": {"one": BEST},
}
LINES = ("trackers", "json_lines")
DIGESTS = (*LINES, "digests")


def changed(*path, value):
    """The whole position with another value at a path; None of a value: the field is not there."""
    place = copy.deepcopy(WHOLE)
    node = place
    for key in path[:-1]:
        node = node[key]
    if value is None:
        del node[path[-1]]
    else:
        node[path[-1]] = value
    return place


def test_a_position_of_a_run_is_taken_whole_and_with_the_least_there_is():
    assert check_position(WHOLE, "step-00000003") is WHOLE
    least = {"phase": 0, "step": 0, "total": 0, "trackers": {}}
    assert check_position(least, "best") is least


@pytest.mark.parametrize(
    "place",
    [
        changed("total", value=10**11 - 1),
        changed("phase", value=7),
        changed("step", value=0),
        changed(*LINES, "ended", value=None),
        changed(*DIGESTS, value=None),
        changed("trackers", "wandb", "id", value="x" * 64),
        changed("trackers", "wandb", value={"id": None}),
    ],
)
def test_what_a_run_may_write_is_taken(place):
    assert check_position(place, "best") is place


def test_as_many_marks_as_a_digest_holds_are_taken_and_one_more_is_not():
    for count, taken in ((64, True), (65, False)):
        place = changed(*LINES, "metrics", value=count)
        place["trackers"]["json_lines"]["digests"]["metrics"] = [
            [n, MARK] for n in range(1, count + 1)
        ]
        if taken:
            assert check_position(place, "best") is place
        else:
            with pytest.raises(CheckpointError, match="'digests' of 'metrics' do not lead to"):
                check_position(place, "best")


REFUSED = {
    "no total": (changed("total", value=None), "total"),
    "negative": (changed("phase", value=-1), "phase"),
    "more than a name holds": (changed("total", value=10**11), "total"),
    "more steps than all": (changed("step", value=4), "'step' is 4, but 'total' is 3"),
    "another": (changed("another", value=1), "another"),
    "seed": (changed("seed", value=-1), "seed"),
    "inputs": (changed("inputs", value={"task": "x"}), "inputs"),
    "trackers": (changed("trackers", value=[]), "trackers"),
    "a tracker": (changed("trackers", "mine", value=3), "mine"),
    "no size": (changed(*LINES, "samples", value=None), "samples"),
    "a size below 0": (changed(*LINES, "samples", value=-1), "samples"),
    "more of the record": (changed(*LINES, "more", value=1), "more"),
    "ended": (changed(*LINES, "ended", value=[ENDED | {"total": 0}]), "total"),
    "ended without a reason": (changed(*LINES, "ended", value=[ENDED | {"reason": ""}]), "reason"),
    "ended without steps": (changed(*LINES, "ended", value=[ENDED | {"steps": "9"}]), "steps"),
    "ended, best": (changed(*LINES, "ended", value=[ENDED | {"best": 3}]), "best"),
    "no digests of samples": (changed(*DIGESTS, "samples", value=None), "samples"),
    "digests of another size": (
        changed(*DIGESTS, "metrics", value=[[19, MARK]]),
        "'digests' of 'metrics' do not lead to its size, 20",
    ),
    "digests that shrink": (
        changed(*DIGESTS, "metrics", value=[[21, MARK], [20, MARK]]),
        "'digests' of 'metrics'",
    ),
    "digests twice": (
        changed(*DIGESTS, "metrics", value=[[20, MARK], [20, MARK]]),
        "'digests' of 'metrics'",
    ),
    "no digest": (changed(*DIGESTS, "metrics", value=[[20, "0" * 63]]), "a size and a SHA-256"),
    "no mark": (changed(*DIGESTS, "metrics", value=[20]), "a size and a SHA-256"),
    "a mark at 0": (changed(*DIGESTS, "samples", value=[[0, MARK]]), "a size and a SHA-256"),
    "run": (changed("trackers", "wandb", "id", value="a/b"), "no id of a W&B run"),
    "a long run": (changed("trackers", "wandb", "id", value="x" * 65), "no id of a W&B run"),
    "spent": (changed("trackers", "wandb", "spent", "x", value=-1.0), "x"),
    "best of W&B": (changed("trackers", "wandb", "best", "x", value="y"), "x"),
    "best of no phase": (changed("best", "one", value=3), "one"),
    "best of another": (changed("best", "one", "phase", value="two"), "the best step of 'one'"),
    "best of later": (changed("best", "one", "total", value=4), "the best step of 'one'"),
    "best at 0": (changed("best", "one", "step", value=0), "step"),
    "best is better": (changed("best", "one", "better", value="more"), "better"),
    "best is no number": (changed("best", "one", "value", value="x"), "value"),
    "best without a metric": (changed("best", "one", "metric", value=""), "metric"),
    "best with less": (changed("best", "one", "metric", value=None), "metric"),
}


@pytest.mark.parametrize(("place", "told"), REFUSED.values(), ids=REFUSED)
def test_what_no_run_writes_is_refused_by_its_field(place, told):
    with pytest.raises(CheckpointError, match=told):
        check_position(place, "best")


def test_the_name_of_a_checkpoint_tells_its_step():
    assert step_name({"total": 123456789}) == "step-123456789"
    assert parse_step("step-00000040") == 40
    assert parse_step("step-0000004") is parse_step("step-00000040x") is parse_step("best") is None
    assert parse_step("step-" + "1" * 12) is None
    with pytest.raises(CheckpointError, match="'total' is 3, but the checkpoint's name is step-"):
        check_position(WHOLE, "step-00000004")


@pytest.mark.parametrize(
    ("phase", "step", "told"),
    [
        (0, 0, None),
        (0, 2, None),
        (0, 3, r"step 3 of phase 'one', which has 2 steps: set phases.one.steps to 3"),
        (1, 5, None),
        (1, 6, r"phase 'two'"),
        (2, 0, None),  # the run is over
        (2, 1, r"step 1 of phase 3, but the run has 2 phases"),
        (3, 0, r"step 0 of phase 4, but the run has 2 phases"),
    ],
)
def test_a_position_lies_within_the_phases_of_the_run(phase, step, told):
    place = {"phase": phase, "step": step}
    if told is None:
        check_within(Path("there"), place, {"one": 2, "two": 5})
        return
    with pytest.raises(CheckpointError, match=rf"^there is at (step 6 of )?{told}"):
        check_within(Path("there"), place, {"one": 2, "two": 5})
