"""What a run's ``ended.jsonl`` may hold: the file may be a stranger's."""

import json

import pytest

from rlcomp.errors import DataError
from rlcomp.report.run_files import read_early_ends
from rlcomp.report.runs import read_run

BEST = {"metric": "m", "better": "higher", "value": 1, "step": 1, "checkpoint": None}
ROW = {"phase": "rl", "step": 1, "steps": 2, "reason": "enough", "best": BEST}


@pytest.mark.parametrize("row", [ROW, ROW | {"best": None}])
def test_a_row_is_read(tmp_path, row):
    (tmp_path / "ended.jsonl").write_text(json.dumps(row))

    assert read_early_ends(tmp_path) == [row]


@pytest.mark.parametrize(
    "row",
    [
        [1, 2],
        {"phase": "rl"},
        ROW | {"steps": "2"},
        ROW | {"step": True},
        ROW | {"reason": None},
        ROW | {"best": "m"},
        ROW | {"best": BEST | {"value": "1"}},
        ROW | {"best": BEST | {"value": 10**400}},
        ROW | {"best": BEST | {"value": float("inf")}},
        ROW | {"best": BEST | {"step": 0}},
        ROW | {"step": 2},
        ROW | {"step": 0},
        ROW | {"step": -100},
        ROW | {"steps": 10**400},
        # One row a phase.
        ROW,
    ],
)
def test_anything_else_is_one_line_that_names_the_file(tmp_path, row):
    (tmp_path / "ended.jsonl").write_text(json.dumps(ROW) + "\n" + json.dumps(row))

    with pytest.raises(DataError, match=r"ended.jsonl, line 2: .*take the line out") as error:
        read_run(tmp_path)

    assert len(str(error.value).splitlines()) == 1


def test_the_steps_that_an_end_has_spared_are_those_of_the_config(make_run):
    # 9 planned, the phase ended after step 2, whatever else the row says.
    folder = make_run("a", [{}, {}], steps=9)
    row = {"phase": "rl", "step": 2, "steps": 5, "reason": "enough", "best": None}
    (folder / "ended.jsonl").write_text(json.dumps(row))

    run = read_run(folder)

    assert (run.planned, run.state) == (2, "finished")


def test_a_phase_that_the_run_does_not_have_spares_nothing(make_run):
    folder = make_run("a", [{}, {}], steps=9)
    (folder / "ended.jsonl").write_text(json.dumps(ROW | {"phase": "nosuch", "steps": 100}))

    run = read_run(folder)

    assert (run.planned, run.state) == (9, "stopped")
