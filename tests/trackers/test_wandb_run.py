"""W&B by hand: what is handed to its library, of which a record of calls stands in here.

What the library makes of it is in ``test_wandb.py``.
"""

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from rlcomp.errors import Interrupted
from rlcomp.trackers.wandb import WandB

SETTINGS = {"project": "p", "run_name": "a", "group": "g", "job_type": "j", "tags": ["t"]}


class Run:
    """A run that notes what is done with it."""

    def __init__(self, folder):
        self.rows, self.axes, self.summary, self.artifacts = [], {}, {}, []
        self.preempting, self.codes = 0, []
        self.settings, self.dir = SimpleNamespace(_offline=True), str(folder / "run" / "files")

    def log(self, row, step):
        self.rows.append((step, dict(row)))

    def define_metric(self, name, **settings):
        self.axes[name] = settings

    def log_artifact(self, artifact):
        self.artifacts.append(artifact)

    def mark_preempting(self):
        self.preempting += 1

    def finish(self, exit_code):
        self.codes.append(exit_code)


class Artifact:
    def __init__(self, name, type):
        self.name, self.type, self.files = name, type, []

    def add_file(self, path, policy):
        self.files.append(Path(path).name)


@pytest.fixture
def wandb(monkeypatch, tmp_path):
    """The library: its run, and how it was begun."""
    library = ModuleType("wandb")
    library.run, library.begun = Run(tmp_path), {}

    def init(**settings):
        library.begun.update(settings)
        return library.run

    library.init, library.Artifact = init, Artifact
    library.Settings = lambda **settings: settings
    library.Table = lambda columns, data, allow_mixed_types: (columns, data, allow_mixed_types)
    library.Image = lambda path: ("image", Path(path).name)
    library.Html = lambda text, inject: ("html", text, inject)
    monkeypatch.setitem(sys.modules, "wandb", library)
    monkeypatch.delenv("WANDB_RUN_ID", raising=False)
    return library


@pytest.fixture
def tracker(wandb, tmp_path):
    tracker = WandB(directory=str(tmp_path), **SETTINGS)
    tracker.start({"rl": 3}, 0)
    return tracker


def test_each_step_is_logged_with_its_place_on_every_axis(tracker, wandb):
    tracker.log(1, "warm", 1, {"reward/mean": 0.5, "rollout/tokens": 10.0}, [])
    tracker.log(2, "rl", 1, {"rollout/tokens": 5.0, "time/step": 2.0}, [])
    tracker.log(3, "rl", 2, {"time/step": 1.0}, [])

    assert wandb.run.rows == [
        (
            1,
            {
                **{"reward/mean": 0.5, "rollout/tokens": 10.0, "phase/step": 1},
                **{"axis/step": 1, "axis/tokens": 10.0, "axis/seconds": 0.0},
            },
        ),
        (
            2,
            {
                **{"rollout/tokens": 5.0, "time/step": 2.0, "phase/step": 1},
                **{"axis/step": 2, "axis/tokens": 15.0, "axis/seconds": 2.0},
            },
        ),
        (
            3,
            {
                **{"time/step": 1.0, "phase/step": 2},
                **{"axis/step": 3, "axis/tokens": 15.0, "axis/seconds": 3.0},
            },
        ),
    ]
    assert wandb.run.summary["phase"] == "rl"
    assert wandb.run.axes["*"] == {"step_metric": "axis/step"}
    for axis in ("step", "tokens", "seconds"):
        assert wandb.run.axes[f"axis/{axis}"] == {"hidden": True}


def test_samples_are_tables_of_the_step(tracker, wandb):
    sample = {"prompt": "a", "response": "b", "tokens": ["b"], "reward": 1}

    tracker.log(1, "rl", 1, {}, [sample])

    ((_, row),) = wandb.run.rows
    columns, data, mixed = row["samples/rollouts"]
    assert (columns, data, mixed) == ([*sample], [[*sample.values()]], True)


@pytest.mark.parametrize(
    ("name", "values", "best"),
    [
        ("evaluation/sampled", [0.5, 0.75, 0.25], 0.75),
        ("evaluation/nats", [0.5, 0.75, 0.25], 0.25),
        ("evaluation/sampled", [float("nan"), 0.5, float("inf")], 0.5),
    ],
)
def test_the_best_of_a_held_out_result_stands_in_the_summary(name, values, best, tracker, wandb):
    for step, value in enumerate(values, 1):
        tracker.log(step, "rl", step, {name: value, "reward/mean": value}, [])

    short = name.removeprefix("evaluation/")
    assert wandb.run.summary[f"best/{short}"] == best
    assert tracker.position()["best"] == {name: best}
    assert [key for key in wandb.run.summary if key.startswith("best/")] == [f"best/{short}"]


def test_why_a_phase_ended_stands_in_the_summary(tracker, wandb):
    tracker.phase_ended(3, {"phase": "rl", "reason": "enough"})

    assert wandb.run.summary == {"ended/rl": "enough"}


def test_a_run_is_begun_with_its_choices_and_goes_on_under_its_id(wandb, tmp_path, monkeypatch):
    first = WandB(directory=str(tmp_path), **SETTINGS)
    first.config = {"loss": 1}
    first.start({}, 0)
    begun = dict(wandb.begun)
    assert (begun["project"], begun["name"], begun["group"]) == ("p", "a", "g")
    assert (begun["job_type"], begun["tags"], begun["config"]) == ("j", ["t"], {"loss": 1})
    assert (begun["dir"], begun["resume"]) == (str(tmp_path), "allow")
    assert len(begun["id"]) == 8
    assert begun["settings"]["quiet"] is True

    again = WandB(directory=str(tmp_path), **SETTINGS)
    again.rewind(first.position())
    again.start({}, 3)
    assert wandb.begun["id"] == begun["id"]
    monkeypatch.setenv("WANDB_RUN_ID", "agent")
    WandB(directory=str(tmp_path), **SETTINGS).start({}, 0)
    assert wandb.begun["id"] == "agent"


def test_a_finished_run_leaves_pictures_and_pages(tracker, wandb, tmp_path):
    files = [tmp_path / name for name in ("curve.png", "report.html", "notes.txt")]
    for file in files:
        file.write_text("text")
    tracker.report_files = lambda: files
    tracker.log(4, "rl", 4, {}, [])

    tracker.finish()

    assert wandb.run.rows[-1] == (
        4,
        {"media/curve": ("image", "curve.png"), "media/report": ("html", "text", False)},
    )
    (artifact,) = wandb.run.artifacts
    assert (artifact.name, artifact.type) == (f"run-{tracker.id}-report", "report")
    assert artifact.files == ["curve.png", "report.html", "notes.txt"]
    assert wandb.run.codes == [0]
    assert "error" not in wandb.run.summary


def test_media_of_a_resumed_run_stand_at_its_last_step(wandb, tmp_path):
    tracker = WandB(directory=str(tmp_path), **SETTINGS)
    (tmp_path / "curve.png").write_text("")
    tracker.report_files = lambda: [tmp_path / "curve.png"]
    tracker.start({}, 7)

    tracker.finish()

    assert [step for step, _ in wandb.run.rows] == [7]


def test_a_run_without_anything_to_look_at_has_no_artifact(tracker, wandb):
    tracker.finish()

    assert (wandb.run.rows, wandb.run.artifacts, wandb.run.codes) == ([], [], [0])


@pytest.mark.parametrize(
    ("error", "code", "preempting"), [(ValueError("boom"), 1, 0), (Interrupted("saved"), 75, 1)]
)
def test_a_run_that_failed_says_how_and_leaves_nothing(error, code, preempting, tracker, wandb):
    tracker.report_files = lambda: pytest.fail("it has not finished")

    tracker.finish(error)

    assert wandb.run.codes == [code]
    assert wandb.run.preempting == preempting
    assert wandb.run.summary["error"].endswith(str(error))


def test_a_report_that_cannot_be_made_is_no_success(tracker, wandb):
    def broken():
        raise FileNotFoundError("gone")

    tracker.report_files = broken

    with pytest.raises(FileNotFoundError):
        tracker.finish()
    assert wandb.run.codes == [1]


@pytest.mark.parametrize("offline", [True, False])
def test_how_to_upload_is_told_of_an_offline_run(offline, tracker, wandb, capsys, tmp_path):
    wandb.run.settings._offline = offline

    tracker.finish()

    assert (f"wandb sync {tmp_path / 'run'}" in capsys.readouterr().out) is offline
