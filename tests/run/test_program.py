import errno
import itertools
import json
import os
import random
import signal
import sys
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from rlcomp.checkpoint.writer import Checkpoint
from rlcomp.component import Component
from rlcomp.errors import (
    ConfigError,
    ConfigErrors,
    Interrupted,
    NoRows,
    ProcessEnded,
    RlcompWarning,
    StorageError,
)
from rlcomp.files.digests import file_digest
from rlcomp.files.shared_status import SharedStatus
from rlcomp.metrics import progress, record, record_sample
from rlcomp.run import program
from rlcomp.run.phase import Phase
from rlcomp.run.program import run_phases
from rlcomp.run.stages import Nothing
from rlcomp.seed import new_generator
from rlcomp.testing import make_batch
from rlcomp.trackers.tracker import JsonLines


class Draw(Component):
    """A new batch of one random reward; notes its phases and where the run stands."""

    writes = ("reward",)
    fresh = True

    def __init__(self) -> None:
        super().__init__()
        self.generator = new_generator()
        self.seen = []

    def begin_phase(self) -> None:
        self.seen.append("begin")

    def forward(self, batch):
        reward = torch.rand(2, generator=self.generator)
        record("reward/mean", reward)
        self.seen.append(round(progress(), 4))
        return make_batch(reward=reward)


class Learn(Component):
    """A weight that follows the reward, an optimiser-like count, and global randomness."""

    reads = ("reward",)
    weight: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("weight", torch.zeros(()))
        self.count = 0

    def forward(self, batch):
        self.count += 1
        noise = torch.rand(()) + random.random() + np.random.rand()
        self.weight += self.count * batch["reward"].mean() + noise
        record("learner/weight", self.weight)
        return batch

    def run_state(self):
        return {"count": self.count}

    def load_run_state(self, state):
        self.count = state["count"]


class Do(Component):
    """Calls a function with the batch."""

    def __init__(self, function) -> None:
        super().__init__()
        self.function = function

    def forward(self, batch):
        self.function(batch)
        return batch


class Kept:
    """A tracker that keeps what it is told."""

    name = "kept"

    def __init__(self):
        self.rows, self.samples, self.calls = [], [], []

    def start(self, phases, done):
        self.calls.append(("start", dict(phases), done))

    def log(self, total, phase, step, metrics, samples):
        self.rows.append({"total": total, "phase": phase, "step": step, **metrics})
        self.samples += samples

    def phase_ended(self, total, ended):
        self.calls.append(("ended", total, dict(ended)))

    def position(self):
        return {"rows": len(self.rows)}

    def rewind(self, place):
        self.calls.append(("rewind", place))

    def finish(self, error=None):
        self.calls.append(("finish", error))


def run(phases, nodes=None, **rest):
    tracker = Kept()
    run_phases(phases, nodes=nodes or {}, seed=0, trackers=[tracker], **rest)
    return tracker


def steps_of(tracker):
    return [(row["total"], row["phase"], row["step"]) for row in tracker.rows]


def test_every_phase_runs_all_its_steps_in_order():
    draw = Draw()

    tracker = run({"one": Phase(2, [draw]), "two": Phase(1, [draw])})

    assert steps_of(tracker) == [(1, "one", 1), (2, "one", 2), (3, "two", 1)]
    assert tracker.calls == [("start", {"one": 2, "two": 1}, 0), ("finish", None)]


def test_a_list_of_stages_begins_at_its_own_step():
    ran = []
    early, late = (Do(lambda _, name=name: ran.append(name)) for name in ("early", "late"))

    run({"one": Phase(4, [early], later={3: [late]})})

    assert ran == ["early", "early", "late", "late"]


def test_the_first_stage_receives_an_empty_batch():
    seen = []

    run({"one": Phase(2, [Do(lambda batch: seen.append(list(batch.keys())))])})

    assert seen == [[], []]


def test_a_phase_begins_before_its_first_step_for_everything_inside_it():
    draw, beside = Draw(), Draw()

    run({"one": Phase(1, [draw], {"show": (1, beside)}), "two": Phase(1, [draw])})

    # Step 1 of 1 is at 1 / 2.
    assert draw.seen == ["begin", 0.5, "begin", 0.5]
    assert beside.seen == ["begin", 0.5]


def test_a_part_that_stands_twice_in_a_phase_begins_once():
    draw = Draw()

    run({"one": Phase(1, [draw, draw])})

    assert draw.seen.count("begin") == 1


def test_progress_counts_within_the_phase():
    draw = Draw()

    run({"one": Phase(3, [draw]), "two": Phase(1, [draw])})

    assert [mark for mark in draw.seen if mark != "begin"] == [
        0.25,
        0.5,
        0.75,
        0.5,
    ]


def test_metrics_are_flushed_once_a_step_and_means_are_exact():
    tracker = run({"one": Phase(2, [Do(lambda _: record("x/y", torch.tensor([1.0, 2.0, 6.0])))])})

    assert [row["x/y"] for row in tracker.rows] == [
        3.0,
        3.0,
    ]  # (1 + 2 + 6) / 3, nothing carried over


def test_every_stage_is_timed_under_its_name_and_the_list_as_a_whole(monkeypatch):
    clock = [100.0]
    monkeypatch.setattr(program, "time", SimpleNamespace(perf_counter=lambda: clock[0]))

    def lasting(seconds):
        return Do(lambda batch: clock.append(clock.pop() + seconds))

    nodes = {"prompts": lasting(2.0), "learner": lasting(0.5), "kl": Nothing()}
    stages = [nodes["prompts"], lasting(4.0), nodes["learner"], nodes["kl"]]

    (row,) = run({"one": Phase(1, stages, {"show": (1, lasting(8.0))})}, nodes).rows

    # What runs beside the list is no part of the step's time; an empty slot has none.
    times = {"prompts": 2.0, "1": 4.0, "learner": 0.5, "step": 6.5, "show": 8.0}
    assert {name: row[name] for name in row if name.startswith("time/")} == {
        f"time/{name}": seconds for name, seconds in times.items()
    }


def test_samples_reach_the_trackers():
    tracker = run({"one": Phase(1, [Do(lambda _: record_sample(prompt="a"))])})

    assert tracker.samples == [{"prompt": "a"}]


def test_stages_run_without_gradients():
    seen = []

    run({"one": Phase(1, [Do(lambda _: seen.append(torch.is_grad_enabled()))])})

    assert seen == [False]


def test_what_is_due_runs_every_so_many_steps_and_at_the_end_of_the_phase():
    seen = []
    draw = Draw()
    beside = Do(lambda _: seen.append(len(draw.seen) - 1))  # all but "begin"

    run({"one": Phase(5, [draw], {"show": (2, beside)})})

    assert seen == [2, 4, 5]


def test_what_is_due_sees_the_batch_and_cannot_change_it():
    def corrupt(batch):
        assert "reward" in batch.keys()
        batch["value"] = batch["reward"]
        del batch["reward"]

    after = []
    phase = Phase(
        1, [Draw()], {"spoil": (1, Do(corrupt)), "look": (1, Do(lambda b: after.extend(b.keys())))}
    )

    run({"one": phase})

    assert after == ["reward"]


def test_what_is_due_records_into_the_step():
    beside = Do(lambda _: record("evaluation/greedy", 0.5))

    tracker = run({"one": Phase(2, [Draw()], {"show": (2, beside)})})

    assert ["evaluation/greedy" in row for row in tracker.rows] == [False, True]


def test_a_run_starts_from_the_seed_whatever_was_drawn_before():
    weights = []
    for before in (0, 7):
        torch.rand(before), np.random.rand(before), [random.random() for _ in range(before)]
        learn = Learn()
        with torch.random.fork_rng():
            torch.manual_seed(3)
            draw = Draw()
        run({"one": Phase(2, [draw, learn])})
        weights.append(learn.weight.item())

    assert weights[0] == weights[1]


def test_a_run_without_phases_is_refused():
    with pytest.raises(ConfigError, match="phases is empty: a run needs at least one phase"):
        run({})


def test_a_run_whose_stages_do_not_fit_does_not_start():
    with pytest.raises(ConfigErrors, match=r"stage Learn \(Learn\) reads 'reward'"):
        run({"one": Phase(1, [Learn()])})


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: Phase(-1, []), "a phase has steps=-1: must be at least 0"),
        (lambda: Phase(1, [3]), "a stage is a int: must be a TensorDict module"),
    ],
)
def test_a_phase_by_hand_is_checked(make, told):
    with pytest.raises(ConfigError, match=told):
        make()


def fail(batch):
    raise RuntimeError("no luck")


def test_an_exception_says_where_it_came_from_and_trackers_are_closed():
    tracker, bad = Kept(), Do(fail)

    with pytest.raises(RuntimeError, match="no luck") as caught:
        run_phases(
            {"warm": Phase(1, [Draw()]), "rl": Phase(2, [Draw(), bad])},
            nodes={"learner": bad},
            seed=0,
            trackers=[tracker],
        )

    assert "\n".join([str(caught.value), *getattr(caught.value, "__notes__", [])]) == (
        "no luck\nin stage 'learner' (Do), phase 'rl', step 1; batch (2,) with keys ['reward']"
    )
    assert tracker.calls[-1] == ("finish", caught.value)
    assert steps_of(tracker) == [(1, "warm", 1)]


@pytest.mark.parametrize("code", [0, 3, None, "done"])
def test_a_stage_that_ends_the_process_is_an_error_that_names_it(code):
    def leave(batch):
        sys.exit(code)

    stage = Do(leave)
    told = rf"^reward \(Do\) ends the process \(SystemExit: {code!r}, .*test_program.py, line \d+\)"
    with pytest.raises(ProcessEnded, match=told):
        run({"rl": Phase(1, [stage], {})}, {"reward": stage})


def test_an_exception_beside_the_flow_names_its_entry():
    with pytest.raises(RuntimeError) as caught:
        run({"rl": Phase(1, [Draw()], {"evaluation": (1, Do(fail))})})

    assert "in stage 'evaluation' (Do), phase 'rl', step 1" in str(
        [*caught.value.args, *getattr(caught.value, "__notes__", [])]
    )


def saving(tmp_path, keep=9):
    return Checkpoint(directory=str(tmp_path / "checkpoints"), keep=keep)


def scene(tmp_path, every=1):
    """Two phases that share a sampler and a learner, saved every so many steps."""
    torch.manual_seed(5)
    draw, learn, checkpoint = Draw(), Learn(), saving(tmp_path)
    beside = {"checkpoint": (every, checkpoint)}
    phases = {"one": Phase(3, [draw, learn], beside), "two": Phase(3, [draw, learn], beside)}
    nodes = {"draw": draw, "learn": learn, "checkpoint": checkpoint}
    return phases, nodes, checkpoint


def lines(directory):
    rows = [json.loads(line) for line in (directory / "metrics.jsonl").read_text().splitlines()]
    return [{k: v for k, v in row.items() if not k.startswith("time/")} for row in rows]


def play(directory, phases, nodes, checkpoint, saved=None):
    run_phases(
        phases,
        nodes=nodes,
        seed=0,
        trackers=[JsonLines(directory=str(directory))],
        checkpoint=checkpoint,
        saved=saved,
    )


@pytest.mark.parametrize("stop", [1, 2, 3, 4, 5, 6])
def test_a_run_stopped_anywhere_goes_on_bit_identically(tmp_path, stop):
    whole = scene(tmp_path / "whole")
    play(tmp_path / "whole", *whole)

    phases, nodes, checkpoint = scene(tmp_path / "cut")
    calls = itertools.count(1)
    nodes["draw"].register_forward_hook(
        lambda *_: os.kill(os.getpid(), signal.SIGTERM) if next(calls) == stop else None
    )
    with pytest.raises(
        Interrupted, match=rf"stopped in phase .* after step {(stop - 1) % 3 + 1}, saved"
    ):
        play(tmp_path / "cut", phases, nodes, checkpoint)
    phases, nodes, checkpoint = scene(tmp_path / "cut")
    play(tmp_path / "cut", phases, nodes, checkpoint, checkpoint.newest())

    assert lines(tmp_path / "cut") == lines(tmp_path / "whole")
    assert torch.equal(nodes["learn"].weight, whole[1]["learn"].weight)


def test_a_resumed_phase_does_not_begin_again(tmp_path):
    phases, nodes, checkpoint = scene(tmp_path)
    play(tmp_path, phases, nodes, checkpoint)
    (tmp_path / "checkpoints" / "step-00000006" / "state.json").unlink()

    phases, nodes, checkpoint = scene(tmp_path)
    with pytest.warns(UserWarning, match="passed over: .*state.json is missing"):
        saved = checkpoint.newest()
    play(tmp_path, phases, nodes, checkpoint, saved)

    assert nodes["draw"].seen == [0.75]  # the last step of the second phase


def test_a_phase_that_a_resumed_run_reaches_begins(tmp_path):
    phases, nodes, checkpoint = scene(tmp_path, every=3)
    play(tmp_path, phases, nodes, checkpoint)

    phases, nodes, checkpoint = scene(tmp_path, every=3)
    from rlcomp.checkpoint.reader import open_checkpoint

    play(
        tmp_path, phases, nodes, checkpoint, open_checkpoint(tmp_path / "checkpoints/step-00000003")
    )

    assert nodes["draw"].seen == ["begin", 0.25, 0.5, 0.75]


def test_a_finished_run_resumed_does_nothing(tmp_path):
    play(tmp_path, *scene(tmp_path))
    before = (tmp_path / "metrics.jsonl").read_bytes()

    phases, nodes, checkpoint = scene(tmp_path)
    play(tmp_path, phases, nodes, checkpoint, checkpoint.newest())

    assert nodes["draw"].seen == []
    assert (tmp_path / "metrics.jsonl").read_bytes() == before


def test_a_resumed_tracker_is_rewound_before_it_starts(tmp_path):
    phases, nodes, checkpoint = scene(tmp_path)
    run(phases, nodes, checkpoint=checkpoint)

    tracker = run(phases, nodes, checkpoint=checkpoint, saved=checkpoint.newest())

    assert tracker.calls == [
        ("rewind", {"rows": 6}),
        ("start", {"one": 3, "two": 3}, 6),
        ("finish", None),
    ]


def test_a_tracker_that_the_stopped_run_did_not_have_starts_new(tmp_path):
    play(tmp_path, *scene(tmp_path))
    phases, nodes, checkpoint = scene(tmp_path)

    tracker = run(phases, nodes, checkpoint=checkpoint, saved=checkpoint.newest())

    assert tracker.calls == [("start", {"one": 3, "two": 3}, 6), ("finish", None)]


def test_an_interrupted_step_is_finished_first(tmp_path):
    after = []
    stop = Do(lambda _: os.kill(os.getpid(), signal.SIGINT))
    tracker = Kept()

    with pytest.raises(
        Interrupted, match="stopped in phase one after step 1, not saved: the run has no"
    ) as stopped:
        run_phases(
            {"one": Phase(3, [Draw(), stop, Do(lambda _: after.append("ran"))])},
            nodes={},
            seed=0,
            trackers=[tracker],
        )

    assert after == ["ran"]
    assert steps_of(tracker) == [(1, "one", 1)]
    assert tracker.calls[-1] == ("finish", stopped.value)


def test_by_hand_too_the_first_signal_is_answered(capfd):
    stop = Do(lambda _: os.kill(os.getpid(), signal.SIGINT))

    with pytest.raises(Interrupted):
        run({"one": Phase(3, [Draw(), stop])}, {"stop": stop})

    assert capfd.readouterr().err == (
        "\nrlcomp: stopping at the end of this step; still in stage 'stop (Do)', phase 'one', step "
        "1 of 3; a second signal stops at once\n"
    )


@pytest.mark.parametrize(("own", "passed_on"), [(1, 1), (0, 1), (1, 0)])
def test_a_watched_run_that_is_asked_once_finishes_its_step(capfd, own, passed_on):
    watch, after = SharedStatus(supervised=True), []

    def ask(batch):
        watch.signals = passed_on
        for _ in range(own):
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(Interrupted, match="after step 1"):
        run({"one": Phase(3, [Draw(), Do(ask), Do(lambda _: after.append(1))])}, status=watch)

    assert after == [1]
    assert capfd.readouterr().err == "", "its watcher answers"


def test_a_watched_run_stops_at_once_when_its_watcher_was_asked_twice():
    watch, before = SharedStatus(supervised=True), signal.getsignal(signal.SIGINT)
    stopping = []

    def ask(batch):
        watch.signals = 2
        try:
            os.kill(os.getpid(), signal.SIGINT)
        finally:
            stopping.extend(map(signal.getsignal, (signal.SIGINT, signal.SIGTERM)))

    with pytest.raises(KeyboardInterrupt):
        run({"one": Phase(3, [Draw(), Do(ask)])}, status=watch)

    assert stopping == [signal.SIG_IGN, signal.SIG_IGN]
    assert signal.getsignal(signal.SIGINT) is before


def test_a_run_says_where_it_is():
    watch, seen = SharedStatus(), []

    class Begins(Do):
        def begin_phase(self):
            self.function(None)

        finish_phase = begin_phase

    look = Begins(lambda _: seen.append(watch.position()))
    run({"one": Phase(1, [Draw(), look])}, {"look": look}, status=watch)

    place = {"phase": "one", "step": 1, "steps": 1}
    assert seen == [
        {**place, "stage": "the beginning of the phase"},
        {**place, "stage": "look (Begins)"},
        {**place, "stage": "the end of the phase"},
    ]
    assert watch.position() == {**place, "stage": "writing the metrics"}


class Failing(Kept):
    """A tracker that fails where it is told to."""

    name = "failing"

    def __init__(self, where, error):
        super().__init__()
        self.where, self.error = where, error

    def start(self, phases, done):
        super().start(phases, done)
        if self.where == "start":
            raise self.error

    def log(self, *step):
        if self.where == "log":
            raise self.error

    def finish(self, error=None):
        super().finish(error)
        if self.where == "finish":
            raise self.error


def tracked_by(*trackers, stages=()):
    run_phases({"one": Phase(1, [Draw(), *stages])}, nodes={}, seed=0, trackers=trackers)


def test_metrics_that_cannot_be_written_are_told_with_place_and_remedy():
    full = OSError(errno.ENOSPC, "No space left on device")
    other, later = Failing("log", full), Kept()

    with pytest.raises(StorageError) as caught:
        tracked_by(other, later)

    assert str(caught.value).startswith(
        "[Errno 28] No space left on device, in stage 'writing the metrics', phase 'one', step 1 "
        "of 1; once there is room, "
    )
    assert later.calls[-1] == ("finish", caught.value)


def test_a_tracker_that_cannot_start_ends_those_that_have():
    first, last = Kept(), Kept()

    with pytest.raises(ConnectionError):
        tracked_by(first, Failing("start", ConnectionError("no network")), last)

    assert first.calls[-1][0] == "finish"
    assert last.calls == []


def test_a_tracker_that_cannot_finish_does_not_hide_what_the_run_failed_by():
    after = Kept()

    with pytest.raises(RuntimeError, match="no luck") as caught:
        tracked_by(Failing("finish", ValueError("late")), after, stages=[Do(fail)])

    assert "tracker failing: ValueError: late" in "\n".join(
        [*map(str, caught.value.args), *getattr(caught.value, "__notes__", [])]
    )
    assert after.calls[-1] == ("finish", caught.value)


def test_a_tracker_that_cannot_finish_is_told_where_nothing_else_failed():
    with pytest.raises(ValueError, match="late"):
        tracked_by(Failing("finish", ValueError("late")))


def test_a_checkpoint_that_cannot_be_written_is_told_with_its_step(tmp_path):
    phases, nodes, checkpoint = scene(tmp_path)
    (tmp_path / "checkpoints").write_text("in the way")

    with pytest.raises(
        StorageError, match=r"Not a directory.*'writing the checkpoint', phase 'one'"
    ):
        run(phases, nodes, checkpoint=checkpoint)


def test_a_second_signal_stops_at_once():
    def twice(batch):
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGTERM)

    after = []

    with pytest.raises(KeyboardInterrupt, match="second signal"):
        run({"one": Phase(3, [Draw(), Do(twice), Do(lambda _: after.append("ran"))])})

    assert after == []


def test_the_handlers_of_before_come_back():
    before = signal.getsignal(signal.SIGTERM)

    run({"one": Phase(1, [Draw()])})

    assert signal.getsignal(signal.SIGTERM) is before


def test_in_another_thread_signals_are_somebody_elses():
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1) as pool:
        tracker = pool.submit(run, {"one": Phase(1, [Draw()])}).result()

    assert len(tracker.rows) == 1


def test_a_checkpoint_is_written_after_the_metrics_of_its_step(tmp_path):
    phases, nodes, checkpoint = scene(tmp_path, every=2)
    play(tmp_path, phases, nodes, checkpoint)

    newest = json.loads((checkpoint.newest().path / "state.json").read_text())

    record, lines = tmp_path / "metrics.jsonl", newest["place"]["trackers"]["json_lines"]
    size = record.stat().st_size
    assert (lines["metrics"], lines["samples"], lines["ended"]) == (size, 0, [])
    assert lines["digests"]["metrics"][-1] == [size, file_digest(record)]
    assert lines["digests"]["samples"] == []


def test_checkpoints_are_written_when_due_and_at_the_end_of_each_phase(tmp_path):
    play(tmp_path, *scene(tmp_path, every=2))

    assert sorted(path.name for path in (tmp_path / "checkpoints").iterdir()) == [
        "step-00000002",
        "step-00000003",
        "step-00000005",
        "step-00000006",
    ]


def test_a_stage_whose_state_no_checkpoint_would_hold_is_refused(tmp_path):
    phases, nodes, checkpoint = scene(tmp_path)
    del nodes["learn"]

    with pytest.raises(ConfigError, match=r'make\("a name", Learn'):
        play(tmp_path, phases, nodes, checkpoint)


def test_what_stands_beside_the_flow_must_be_a_node_too(tmp_path):
    phases, nodes, checkpoint = scene(tmp_path)
    phases["two"].every["draw"] = (1, Draw())

    with pytest.raises(ConfigError, match=r'make\("a name", Draw'):
        play(tmp_path, phases, nodes, checkpoint)


@pytest.mark.parametrize("entry", [(0, Draw()), Draw(), (1,)])
def test_what_runs_beside_the_flow_by_hand_is_checked(entry):
    with pytest.raises(ConfigError, match="every 'draw'"):
        Phase(1, [Draw()], {"draw": entry})


class NoneLeft(Component):
    """A new batch, of which the first calls find no row."""

    writes = ("reward",)
    fresh = True

    def __init__(self, empty) -> None:
        super().__init__()
        self.left = empty

    def forward(self, batch):
        self.left -= 1
        if self.left >= 0:
            raise NoRows("a store is empty")
        return make_batch(reward=torch.ones(2))


def test_a_step_without_rows_is_skipped_and_the_run_goes_on(recwarn):
    learn, beside, reader, after = Learn(), Draw(), Learn(), Learn()
    stages = [NoneLeft(2), learn]
    phases = {
        "rl": Phase(3, stages, every={"beside": (1, beside), "reader": (1, reader)}),
        "more": Phase(1, [Draw(), after]),
    }

    tracker = run(phases)

    told = [str(one.message) for one in recwarn if one.category is RlcompWarning]
    assert len(told) == 1
    assert "phase rl: step 1 is skipped" in told[0]
    assert "a store is empty" in told[0]
    assert [row.get("skipped_steps") for row in tracker.rows] == [1.0, 1.0, None, None]
    # What reads the batch waits for one, at the end of the phase too; what reads none does not.
    assert (learn.count, reader.count, after.count) == (1, 1, 1)
    assert beside.seen == ["begin", 0.25, 0.5, 0.75]


def test_a_phase_that_ends_without_rows_runs_what_is_due_and_reads_none():
    beside, reader = Draw(), Learn()
    phases = {
        "rl": Phase(2, [NoneLeft(2)], every={"beside": (5, beside), "reader": (5, reader)}),
    }

    with pytest.warns(RlcompWarning):
        run(phases)

    assert (beside.seen, reader.count) == (["begin", 0.6667], 0)
