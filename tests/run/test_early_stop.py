"""A phase that is ended early: what the loop does then, what is kept, and what the reports say."""

import json

import pytest
import torch
from tensordict import TensorDict

from rlcomp.cli.report import report
from rlcomp.component import Component
from rlcomp.errors import ConfigErrors
from rlcomp.io.checkpoint import Checkpoint, open_checkpoint
from rlcomp.io.tracking import JsonLines
from rlcomp.metrics import end_phase, keep_best, record
from rlcomp.report.runs import read_run
from rlcomp.report.summary import summarise
from rlcomp.run.phase import Phase
from rlcomp.run.program import run_phases
from rlcomp.seed import new_generator
from rlcomp.wiring.compose import compose_config
from rlcomp.wiring.resolve import plan_of


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
    draw, stop, checkpoint = Draw(), Beside(end), Checkpoint(directory=str(directory), keep=9)
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
    assert ended == {**told, "best": BEST}
    assert json.loads((tmp_path / "best" / "best.json").read_text()) == BEST


def test_the_best_checkpoint_holds_the_weights_of_its_step(tmp_path):
    walk(tmp_path)

    best = open_checkpoint(tmp_path / "best")
    assert best.path.name == "step-00000002"
    assert best.tensors()["draw:weight"].item() == pytest.approx(rows(tmp_path)[1]["weight/now"])


def test_a_run_continued_behind_the_end_does_not_go_on_with_the_phase(tmp_path):
    walk(tmp_path)
    whole = rows(tmp_path)

    walk(tmp_path, resume=tmp_path / "step-00000003")

    assert rows(tmp_path) == whole
    assert [row["phase"] for row in whole[3:]] == ["two", "two"]
    assert len(rows(tmp_path, "ended")) == 1


def test_a_run_continued_before_the_end_ends_there_again(tmp_path):
    walk(tmp_path, every=1)
    whole, ended = rows(tmp_path), rows(tmp_path, "ended")

    # From the best, and from the step after it: what was the best is known from the checkpoint.
    for start in (tmp_path / "best", tmp_path / "step-00000002", tmp_path / "step-00000001"):
        walk(tmp_path, resume=start, every=1)

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


def test_the_best_is_that_of_the_best_evaluation(stopped, metrics):
    values = [row["evaluation/sampled"] for row in metrics(stopped) if row["phase"] == "rl"]
    (ended,) = rows(stopped, "ended")

    assert ended["best"]["value"] == max(values)
    assert ended["best"]["step"] == values.index(max(values)) + 1
    assert open_checkpoint(stopped / "checkpoints" / "best").path.name == (
        f"step-{ended['best']['total']:08d}"
    )


def test_the_summary_says_why_and_the_report_counts_it_as_finished(stopped):
    run = read_run(stopped)

    assert "Phase rl ended after step 3 of 9: plateau: evaluation/sampled" in summarise(stopped)
    assert (run.state, run.steps, run.planned) == ("finished", 5, 5)
    assert run.ended[0]["phase"] == "rl"
    report([str(stopped)], None, None, [])
    page = (stopped / "report.html").read_text()
    assert "Phases that ended early" in page
    assert "Phase rl ended after step 3 of 9: plateau: evaluation/sampled was not higher" in page


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
