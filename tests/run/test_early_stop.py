"""A phase that is ended early: what the loop does then, what is kept, and what the reports say."""

import json
import shutil

import pytest
import torch
from tensordict import TensorDict

from components.early_stop import Alarm, Plateau
from rlcomp.checkpoint.reader import open_checkpoint
from rlcomp.checkpoint.writer import Checkpoint
from rlcomp.cli.report import report
from rlcomp.component import Component
from rlcomp.config.compose import compose_config
from rlcomp.config.resolve import plan_of
from rlcomp.errors import ConfigErrors, StorageError
from rlcomp.metrics import end_phase, keep_best, record
from rlcomp.report.run_files import describe_early_end, read_early_ends
from rlcomp.report.runs import read_run
from rlcomp.report.summary import summarise
from rlcomp.run.phase import Phase
from rlcomp.run.program import run_phases
from rlcomp.seed import new_generator
from rlcomp.trackers.tracker import JsonLines


class Draw(Component):
    """A weight that walks at random."""

    weight: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.generator = new_generator()
        self.register_buffer("weight", torch.zeros(()))

    def forward(self, batch):
        self.weight += torch.rand((), generator=self.generator)
        record("weight/now", self.weight)
        return batch


class Beside(Component):
    """Runs beside the flow: the second call is the best, the third ends the phase."""

    calls: torch.Tensor

    def __init__(self, end=3) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))
        self.end = end

    def begin_phase(self) -> None:
        self.calls.zero_()

    def forward(self, batch: TensorDict) -> TensorDict:
        self.calls += 1
        if int(self.calls) == 2:
            keep_best(metric="evaluation/x", better="higher", value=0.25)
        if int(self.calls) == self.end:
            end_phase("enough")
            end_phase("too late")
        return batch


class Count(Component):
    """Records that it was there."""

    def forward(self, batch):
        record("evaluation/x", 1.0)
        return batch


def walk(directory, resume=None, end=3, every=100):
    draw, stop = Draw(), Beside(end)
    checkpoint = Checkpoint(directory=str(directory / "checkpoints"), keep=9)
    nodes = {"draw": draw, "stop": stop, "checkpoint": checkpoint}
    beside = {"evaluation": (100, Count()), "stop": (1, stop), "checkpoint": (every, checkpoint)}
    phases = {
        "one": Phase(5, [draw], beside),
        "two": Phase(2, [draw], {"checkpoint": (1, checkpoint)}),
    }
    saved = None if resume is None else open_checkpoint(resume)
    lines = JsonLines(directory=str(directory))
    run_phases(phases, nodes=nodes, seed=0, trackers=[lines], checkpoint=checkpoint, saved=saved)
    return draw


def rows(directory, name="metrics"):
    lines = (directory / f"{name}.jsonl").read_text().splitlines()
    return [{k: v for k, v in json.loads(x).items() if not k.startswith("time/")} for x in lines]


BEST = {"metric": "evaluation/x", "better": "higher", "value": 0.25}
BEST |= {"phase": "one", "step": 2, "total": 2}
SAVED = "checkpoints/best/step-00000002"


def test_the_phase_ends_after_that_step_and_the_next_one_begins(tmp_path):
    walk(tmp_path)

    steps = [(row["total"], row["phase"], row["step"]) for row in rows(tmp_path)]
    assert steps == [(1, "one", 1), (2, "one", 2), (3, "one", 3), (4, "two", 1), (5, "two", 2)]


def test_what_runs_at_the_end_of_a_phase_runs(tmp_path):
    walk(tmp_path)

    assert ["evaluation/x" in row for row in rows(tmp_path)] == [False, False, True, False, False]


def test_the_reason_and_the_best_step_are_recorded(tmp_path):
    walk(tmp_path)

    (ended,) = rows(tmp_path, "ended")
    told = {"total": 3, "phase": "one", "step": 3, "steps": 5, "reason": "enough"}
    assert ended == {**told, "best": {**BEST, "checkpoint": SAVED}}
    assert open_checkpoint(tmp_path / SAVED).position()["best"] == {"one": BEST}


def test_the_best_checkpoint_holds_the_weights_of_its_step(tmp_path):
    walk(tmp_path)

    best = open_checkpoint(tmp_path / "checkpoints" / "best")
    assert best.path.name == "step-00000002"
    assert best.tensors()["draw:weight"].item() == pytest.approx(rows(tmp_path)[1]["weight/now"])


def test_a_run_continued_behind_the_end_does_not_go_on_with_the_phase(tmp_path):
    walk(tmp_path)
    whole = rows(tmp_path)

    walk(tmp_path, resume=tmp_path / "checkpoints" / "step-00000003")

    assert rows(tmp_path) == whole
    assert [row["phase"] for row in whole[3:]] == ["two", "two"]
    assert len(rows(tmp_path, "ended")) == 1


def test_a_run_continued_before_the_end_ends_there_again(tmp_path):
    walk(tmp_path, every=1)
    whole, ended = rows(tmp_path), rows(tmp_path, "ended")

    # From the best, and from the step after it: what was the best is known from the checkpoint.
    for start in ("best", "step-00000002", "step-00000001"):
        walk(tmp_path, resume=tmp_path / "checkpoints" / start, every=1)

        assert (rows(tmp_path), rows(tmp_path, "ended")) == (whole, ended)


def test_a_new_run_in_the_same_directory_forgets_the_old_end(tmp_path):
    walk(tmp_path)

    walk(tmp_path, end=99)

    assert not (tmp_path / "ended.jsonl").exists()
    assert len(rows(tmp_path)) == 7


def test_at_the_last_step_of_a_phase_nothing_ends_early(tmp_path):
    walk(tmp_path, end=5)

    assert not (tmp_path / "ended.jsonl").exists()
    assert len(rows(tmp_path)) == 7


class Script(Component):
    """Runs beside the flow; after each step of the run, what a script says: a best value, an end.

    ``.5`` is a best value, ``"!"`` ends the phase, None is nothing.
    """

    calls: torch.Tensor

    def __init__(self, script) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))
        self.script = [*script, *[None] * 9]

    def forward(self, batch: TensorDict) -> TensorDict:
        said = self.script[int(self.calls)]
        self.calls += 1
        if isinstance(said, float):
            keep_best(metric="evaluation/x", better="higher", value=said)
        elif said:
            end_phase("enough")
        return batch


def scripted(directory, script, resume=None, saves=True):
    """Two phases of at most 4 steps; the weight is the number of steps, all checkpoints stay."""
    count, stop = Script([]), Script(script)
    checkpoint = Checkpoint(directory=str(directory / "checkpoints"), keep=9) if saves else None
    beside = {"stop": (1, stop)} | ({"checkpoint": (1, checkpoint)} if saves else {})
    phases = {"one": Phase(4, [count], beside), "two": Phase(4, [count], beside)}
    run_phases(
        phases,
        nodes={"count": count, "stop": stop},
        seed=0,
        trackers=[JsonLines(directory=str(directory))],
        checkpoint=checkpoint,
        saved=None if resume is None else open_checkpoint(resume),
    )


def kept(directory):
    """Steps that are kept as best ones, each with the weight in it."""
    found = sorted((directory / "checkpoints" / "best").iterdir())
    return {path.name: open_checkpoint(path).tensors()["count:calls"].item() for path in found}


def test_each_phase_keeps_its_own_best(tmp_path):
    scripted(tmp_path, [0.5, 0.6, "!", 0.1, "!"])

    # .1 is less than .6, but the best of its phase.
    assert kept(tmp_path) == {"step-00000002": 2, "step-00000004": 4}
    one, two = (row["best"] for row in rows(tmp_path, "ended"))
    assert (one["checkpoint"], two["checkpoint"]) == (SAVED, "checkpoints/best/step-00000004")


def test_the_best_of_an_abandoned_continuation_is_forgotten(tmp_path):
    scripted(tmp_path, [None, None, 0.5])
    assert kept(tmp_path) == {"step-00000003": 3}

    scripted(tmp_path, [], resume=tmp_path / "checkpoints" / "step-00000001")

    assert kept(tmp_path) == {}


def test_a_best_step_that_the_abandoned_continuation_beat_is_the_best_again(tmp_path):
    scripted(tmp_path, [None, 0.5, 0.6])
    assert kept(tmp_path) == {"step-00000003": 3}

    resume = tmp_path / "checkpoints" / "step-00000002"
    scripted(tmp_path, [None, None, "!"], resume=resume)

    assert kept(tmp_path) == {"step-00000002": 2}
    assert rows(tmp_path, "ended")[0]["best"]["checkpoint"] == SAVED


def test_a_best_step_that_is_nowhere_any_more_is_told_without_a_checkpoint(tmp_path):
    scripted(tmp_path, [0.5, None, 0.6])
    shutil.rmtree(tmp_path / "checkpoints" / "step-00000001")

    resume = tmp_path / "checkpoints" / "step-00000002"
    scripted(tmp_path, [None, None, "!"], resume=resume)

    (ended,) = rows(tmp_path, "ended")
    assert (ended["best"]["value"], ended["best"]["checkpoint"]) == (0.5, None)


def test_a_new_run_keeps_no_best_of_an_earlier_one(tmp_path):
    scripted(tmp_path, [0.5])
    for path in (tmp_path / "checkpoints").glob("step-*"):
        shutil.rmtree(path)

    scripted(tmp_path, [])

    assert kept(tmp_path) == {}


def test_a_run_that_goes_on_elsewhere_takes_the_best_and_the_ends_along(tmp_path):
    scripted(tmp_path / "a", [0.5, "!", 0.1])
    whole = rows(tmp_path / "a", "ended")

    for name, start in {"b": "step-00000004", "c": "best/step-00000003"}.items():
        scripted(tmp_path / name, [], resume=tmp_path / "a" / "checkpoints" / start)

        assert kept(tmp_path / name) == {"step-00000001": 1, "step-00000003": 3}
        assert rows(tmp_path / name, "ended") == whole


def test_a_best_of_the_same_step_in_another_run_is_not_this_ones(tmp_path):
    scripted(tmp_path / "a", [0.5])
    scripted(tmp_path / "b", [0.9])
    (tmp_path / "b" / "metrics.jsonl").unlink()  # a record is not continued by another run

    scripted(tmp_path / "b", [], resume=tmp_path / "a" / "checkpoints" / "step-00000002")

    best = open_checkpoint(tmp_path / "b" / "checkpoints" / "best" / "step-00000001")
    assert best.position()["best"]["one"]["value"] == 0.5


def test_a_damaged_best_is_not_taken_along(tmp_path):
    scripted(tmp_path / "a", [0.5])
    checkpoints = tmp_path / "a" / "checkpoints"
    (checkpoints / "best" / "step-00000001" / "state.json").write_text("{}")
    (checkpoints / "step-00000001" / "state.json").write_text("{}")

    start = checkpoints / "step-00000002"
    scripted(tmp_path / "b", [], resume=start)

    assert not (tmp_path / "b" / "checkpoints" / "best").exists()


def test_a_damaged_best_makes_way_and_is_kept(tmp_path):
    scripted(tmp_path, [0.5])
    checkpoints = tmp_path / "checkpoints"
    (checkpoints / "best" / "step-00000001" / "state.json").write_text("{}")

    scripted(tmp_path, [], resume=checkpoints / "step-00000002")

    names = sorted(path.name for path in (checkpoints / "best").iterdir())
    assert names == ["step-00000001", "unreadable-step-00000001"]
    best = open_checkpoint(checkpoints / "best" / "step-00000001")
    assert best.position()["best"]["one"]["value"] == 0.5


def test_a_run_without_checkpoints_says_its_best_and_no_place(tmp_path):
    scripted(tmp_path, [0.5, "!"], saves=False)

    (row,) = read_early_ends(tmp_path)
    assert describe_early_end(row) == (
        "Phase one ended after step 2 of 4: enough. Best: evaluation/x 0.5 after step 1 of the "
        "phase (higher is better)."
    )


def test_the_words_name_the_checkpoint_that_is_there(tmp_path):
    scripted(tmp_path, [None, 0.5, "!"])

    (row,) = read_early_ends(tmp_path)
    assert describe_early_end(row).endswith(f"(higher is better), in {SAVED}.")
    shutil.rmtree(tmp_path / SAVED)
    (row,) = read_early_ends(tmp_path)
    assert describe_early_end(row).endswith("(higher is better).")


def test_a_best_checkpoint_that_cannot_be_written_is_told(tmp_path):
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "checkpoints" / "best").write_text("in the way")

    with pytest.raises(StorageError, match=r"best.* cannot be written .*'writing the best checkp"):
        scripted(tmp_path, [0.5])


class Closing(Component):
    """Records what only the end of a phase brings."""

    def finish_phase(self) -> None:
        record("closing/called", 1.0)

    def forward(self, batch):
        return batch


@pytest.mark.parametrize(("end", "last"), [(2, 2), (9, 4)])
def test_the_end_of_a_phase_is_told_to_its_parts_once_early_or_not(tmp_path, end, last):
    beside = {"stop": (1, Beside(end)), "closing": (3, Closing())}
    phases = {"one": Phase(4, [Draw()], beside), "two": Phase(1, [Draw()])}
    nodes = {str(id(stage)): stage for phase in phases.values() for stage in phase.all_stages()}

    run_phases(phases, nodes=nodes, seed=0, trackers=[JsonLines(directory=str(tmp_path))])

    closing = [row["total"] for row in rows(tmp_path) if "closing/called" in row]
    assert closing == [last]


class Measured(Component):
    """Records a value for each of its calls."""

    def __init__(self, values) -> None:
        super().__init__()
        self.values = list(values)

    def forward(self, batch):
        record("evaluation/x", self.values.pop(0))
        return batch


@pytest.mark.parametrize(("values", "step"), [([0.5, 0.75], 3), ([0.75, 0.5], 2)])
def test_the_evaluation_at_an_early_end_may_be_the_best(tmp_path, values, step):
    # .75, the better one of two evaluations, is that of step 3 or that of step 2; the alarm, which
    # ends the phase after step 3, makes the second due.
    alarm = Alarm(metric="evaluation/x", watch="weight/now", low=99.0, patience=3)
    draw, checkpoint = Draw(), Checkpoint(directory=str(tmp_path / "checkpoints"), keep=1)
    beside = {"evaluation": (2, Measured(values)), "stop": (1, alarm), "save": (9, checkpoint)}
    phases = {"one": Phase(9, [draw], beside)}
    nodes = {"draw": draw, "stop": alarm, "save": checkpoint}
    lines = JsonLines(directory=str(tmp_path))

    run_phases(phases, nodes=nodes, seed=0, trackers=[lines], checkpoint=checkpoint)

    (ended,) = rows(tmp_path, "ended")
    assert (ended["step"], ended["best"]["step"], ended["best"]["value"]) == (3, step, 0.75)
    best = open_checkpoint(tmp_path / "checkpoints" / "best").tensors()["draw:weight"].item()
    assert best == pytest.approx(rows(tmp_path)[step - 1]["weight/now"])


def test_the_best_of_values_that_rise_and_fall_is_the_highest(tmp_path):
    plateau = Plateau(metric="evaluation/x", patience=2)
    draw, checkpoint = Draw(), Checkpoint(directory=str(tmp_path / "checkpoints"), keep=1)
    values = Measured([0.25, 0.75, 0.5, 0.625])
    phases = {"one": Phase(9, [draw], {"evaluation": (2, values), "stop": (1, plateau)})}
    nodes = {"draw": draw, "stop": plateau, "save": checkpoint}
    lines = JsonLines(directory=str(tmp_path))

    run_phases(phases, nodes=nodes, seed=0, trackers=[lines], checkpoint=checkpoint)

    # Evaluated after steps 2, 4, 6 and 8: the last two are no better than .75.
    (ended,) = rows(tmp_path, "ended")
    assert (ended["step"], ended["best"]["step"], ended["best"]["value"]) == (8, 4, 0.75)
    best = open_checkpoint(tmp_path / "checkpoints" / "best").tensors()["draw:weight"].item()
    assert best == pytest.approx(rows(tmp_path)[3]["weight/now"])


PLATEAU = (
    "recipe=grpo",
    "early_stop=plateau",
    "early_stop.patience=2",
    # Nothing is better by more than 2: the first evaluation stays the mark.
    "early_stop.min_delta=2",
    "phases.rl.steps=9",
    "phases.rl.every.evaluation=1",
    "model.hidden_size=16",
    "model.intermediate_size=16",
)


@pytest.fixture(scope="module")
def stopped(play, tmp_path_factory):
    return play(tmp_path_factory.mktemp("stopped") / "run", *PLATEAU)


@pytest.mark.slow
def test_a_run_at_a_plateau_ends_and_stays_ended(stopped, play, metrics):
    found = metrics(stopped)

    play(stopped, *PLATEAU)

    # Two steps of the warm start; the mark, and two evaluations that are no better.
    assert [row["step"] for row in found] == [1, 2, 1, 2, 3]
    assert metrics(stopped) == found


def test_continued_in_the_middle_it_ends_at_the_same_step(stopped, continued, bits, tmp_path):
    again = continued(stopped, tmp_path / "again", 3, *PLATEAU)

    assert bits(again) == bits(stopped)
    assert rows(again, "ended") == rows(stopped, "ended")


def test_the_summary_says_why_and_the_report_counts_it_as_finished(stopped):
    run = read_run(stopped)

    assert "Phase rl ended after step 3 of 9: plateau: evaluation/sampled" in summarise(stopped)
    assert (run.state, run.steps, run.planned) == ("finished", 5, 5)
    assert run.ended[0]["phase"] == "rl"
    report([str(stopped)], None, None, [])
    page = (stopped / "report.html").read_text()
    assert "Phases that ended early" in page
    assert "Phase rl ended after step 3 of 9: plateau: evaluation/sampled was not higher" in page


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["early_stop=kl_budget", "early_stop.budget=1e-3", "early_stop.window=1"], "KL budget"),
        (["early_stop=alarm", "early_stop.low=99", "early_stop.patience=2"], "alarm"),
        (
            ["early_stop=reached", "early_stop.high=-0.1", "phases.rl.every.evaluation=2"],
            "alarm: evaluation/sampled was above -0.1 1 times in a row",
        ),
    ],
)
def test_a_budget_and_an_alarm_end_a_run(play, tmp_path, words, reason):
    small = (
        "model.hidden_size=16",
        "model.intermediate_size=16",
        "phases.rl.steps=6",
        "learner.optimizer.lr=2e-2",
    )

    directory = play(tmp_path / "run", "recipe=grpo", *small, *words)

    (ended,) = rows(directory, "ended")
    assert ended["reason"].startswith(reason)
    # The policy is its own reference in the first step; an entropy of 99 nats is nowhere.
    assert ended["step"] == 2


def test_a_kl_budget_asks_for_a_reference():
    words = ["recipe=dapo", "early_stop=kl_budget", "reference=none", "directory=x"]

    with pytest.raises(ConfigErrors, match=r"early_stop \(KLBudget\) reads 'ref_log_probs'"):
        plan_of(compose_config(words))
