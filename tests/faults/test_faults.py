"""A few of the faults of ``make faults``: a run is killed, goes on, and is the same."""

import errno

import pytest
import run_all
import soak
from attempts import STORAGE
from campaign import Faulted
from events import Events, called, kind
from page import rows_of, write
from recipes import RECIPES, composed
from storage import Storage, write_points

# What stands for all: each a point at which another half of the work is done.
POINTS = {
    "the record is ahead of the checkpoint": ("after the record of a step", 3),
    "half of a line of the record": ("half of appending to samples.jsonl", 2),
    "half of an old checkpoint is deleted": (
        "half of deleting checkpoints/draft of step-00000002-deleted",
        1,
    ),
    "within an optimiser's step": ("after a backward pass in rl: learner", 3),
}


@pytest.fixture(scope="module")
def under(tmp_path_factory):
    job = composed("SFT, then GRPO", tmp_path_factory.mktemp("base") / "base")
    return Faulted(job, tmp_path_factory.mktemp("runs"))


@pytest.mark.slow
@pytest.mark.parametrize("name", POINTS)
def test_a_killed_run_goes_on_and_equals_the_one_that_was_not(under, name):
    before = under.counts["equal"]

    under.kill(POINTS[name])

    assert under.wrong == []
    assert under.counts["equal"] == before + 1


def test_a_disk_that_fills_within_the_tensors_is_told_and_the_run_goes_on(under, tmp_path):
    storage = Storage(under.job, tmp_path)
    points = write_points(storage.whole.names)
    tensors = "half of writing checkpoints/draft of step-00000004/tensors.safetensors"

    ended, equal = storage.failing((tensors, 1), errno.ENOSPC)

    assert (tensors, 1) in points
    assert ended.code == STORAGE
    assert "No space left on device" in ended.told
    assert equal


def test_a_run_that_is_another_in_one_thing_is_told(under, tmp_path):
    for name in ("metrics", "samples", "tensors", "states", "files"):
        faulted = object.__new__(Faulted)
        faulted.__dict__ |= {**vars(under), "wrong": [], "folder": tmp_path}
        faulted.whole = {(): under.whole[()] | {name: None}}

        faulted.compare("killed", under.folder / "whole", ())

        assert faulted.wrong == [f"killed: other {name}, in {under.folder / 'whole'}"]


def test_points_are_spread_over_all_kinds_of_them(under):
    points = under.points(40)

    assert len(points) == len({kind(name) for name, _ in points}) == 40
    for name, which in points:
        assert 1 <= which <= under.names.count(name)
    assert {"before", "half", "after"} <= {name.split()[0] for name, _ in points}
    assert len(under.points(1000)) == len({kind(name) for name in under.names})


def test_every_stage_gets_the_signals(under):
    stages = [name.removeprefix("before ") for name, _ in under.stages()]

    assert {"warm_start: demonstrations", "rl: rollout", "rl: learner", "rl: evaluation"} <= {
        *stages
    }


def test_something_happens_at_the_time_that_was_said_and_only_then():
    met = []
    events = Events(("b", 2), lambda name: met.append((name, len(events.names))))

    for name in ("a", "b", "a", "b", "b"):
        events(name, lambda: met.append("half"))

    assert met == ["half", ("b", 4)]


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/a/run/checkpoints/.tmp-step-00000002-77/state.json", "draft of step-00000002/state"),
        ("/a/run/checkpoints/.tmp-step-00000002-deleted-7", "draft of step-00000002-deleted"),
        ("/a/run", "run"),
    ],
)
def test_a_point_has_the_same_name_in_every_process(path, name):
    assert name in called(path)
    assert "/a/" not in called(path)


def test_what_grows_is_told():
    # 100 steps; CPU seconds 0.01 a step, then 0.02; memory 1000 KiB, then 2000; a descriptor more.
    flat = [(n, 0.01, 0.001, 1000, 9) for n in range(100)]
    grown = flat[:50] + [(n, 0.02, 0.001, 2000, 10) for n in range(50, 100)]
    busier = flat[:50] + [(n, 0.02, 0.002, 1000, 9) for n in range(50, 100)]

    assert soak.judged(soak.grown(flat), 100) == []
    assert soak.judged(soak.grown(busier), 100) == []
    assert soak.judged(soak.grown(grown), 100) == [
        # 1000 KiB within 80 steps.
        "KiB a step: 12.5, at most 0.5",
        "CPU time of a step: 2, at most 1.1",
        "descriptors: 9, then 10",
    ]


@pytest.mark.slow
def test_a_soak_of_a_few_steps_has_all_its_faults(tmp_path):
    soak.run_here(soak.planned([*soak.WORDS, "phases.rl.steps=2"]))

    rows = soak.lives(soak.planned([*soak.WORDS, "phases.rl.steps=400"]), tmp_path)
    told, wrong = soak.faults(tmp_path / "run" / "metrics.jsonl", 400)

    assert wrong == []
    assert told.startswith("400 steps, 5 kills, 4 skipped, ")
    # The last checkpoint before step 330, or, if it was killed late, the next.
    assert rows[0][0] in (326, 351)
    assert rows[-1][0] == 400


def test_a_table_of_the_page_is_replaced_between_its_marks(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("a\n<!-- x -->\nold\n<!-- end of x -->\nb\n<!-- y -->\n<!-- end of y -->\n")

    write("x", ["name", "n"], [["one", 1], ["two", 2]], page)

    body = "| name | n |\n| --- | --- |\n| one | 1 |\n| two | 2 |\n"
    rest = "b\n<!-- y -->\n<!-- end of y -->\n"
    assert page.read_text() == f"a\n<!-- x -->\n{body}<!-- end of x -->\n{rest}"
    assert rows_of("x", page) == {"one": ["one", "1"], "two": ["two", "2"]}


def test_every_row_of_the_page_has_as_many_faults_as_are_meant():
    rows = rows_of("recipes")

    assert [*rows] == [*RECIPES]
    for name, cells in rows.items():
        facts = dict(zip(run_all.HEAD, cells, strict=True))
        kills, runs = int(facts["kill points"]), int(facts["runs of 3 random kills"])
        done = kills + runs + int(facts["SIGTERM, SIGINT"]) + int(facts["SIGSTOP"])
        assert kills >= 40, name
        assert runs >= 20, name
        assert facts["equal"] == f"{done} of {done}", name
    for what, number, told, equal in rows_of("storage").values():
        assert told.startswith(f"{number}, "), what
        assert equal == number, what
