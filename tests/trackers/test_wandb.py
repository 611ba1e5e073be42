"""W&B: the record of an offline run, decoded; no key, no network."""

import importlib.util
import json
import os
import signal
from pathlib import Path

import pytest

from rlcomp.cli.supervisor import run_in_child
from rlcomp.errors import Died, Interrupted
from rlcomp.files.shared_status import SharedStatus
from rlcomp.trackers.tracker import closing_tracker
from rlcomp.trackers.wandb import SampleTable, WandB, sample_tables

PHASES = {"rl": 3}
SETTINGS = {"project": "p", "run_name": None, "group": None, "job_type": None, "tags": []}


def decoded(directory):
    """What an offline run of W&B recorded, once its own process is done."""
    import wandb

    wandb.teardown()
    spec = importlib.util.spec_from_file_location(
        "wandb_record", Path(__file__).with_name("wandb_record.py")
    )
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.Recorded(directory)


def forget_user(patch, home):
    """A user without any W&B account, in an empty home."""
    for name in [name for name in os.environ if name.startswith("WANDB_")]:
        patch.delenv(name)
    patch.setenv("HOME", str(home))
    patch.delenv("NETRC", raising=False)


@pytest.fixture
def nobody(tmp_path, monkeypatch):
    forget_user(monkeypatch, tmp_path)
    return tmp_path


def test_wandb_is_offline_without_a_key(nobody):
    assert WandB._mode() == "offline"


def test_wandb_is_online_with_a_key_in_the_environment(nobody, monkeypatch):
    monkeypatch.setenv("WANDB_API_KEY", "x" * 40)

    assert WandB._mode() == "online"


def test_wandb_is_online_with_a_key_that_its_login_left(nobody):
    (nobody / ".netrc").write_text("machine api.wandb.ai login user password secret\n")
    (nobody / ".netrc").chmod(0o600)

    assert WandB._mode() == "online"


def test_a_netrc_for_others_or_of_nonsense_is_no_key(nobody):
    (nobody / ".netrc").write_text("machine example.com login user password secret\n")
    (nobody / ".netrc").chmod(0o600)
    assert WandB._mode() == "offline"

    (nobody / ".netrc").write_text("nonsense\n")
    assert WandB._mode() == "offline"


def test_the_users_wandb_mode_wins(nobody, monkeypatch):
    monkeypatch.setenv("WANDB_API_KEY", "x" * 40)
    monkeypatch.setenv("WANDB_MODE", "disabled")

    assert WandB._mode() == "disabled"


def test_samples_are_a_table_a_kind_without_empty_columns():
    rollout = {"prompt": "a", "response": "b", "tokens": ["b"], "reward": 0.5}
    held_out = {"prompt": "c", "response": "d", "answer": None, "reward": None, "rewards": {}}

    counts = {"problem": "1f", "n": 4, "c": 1}

    tables = sample_tables([rollout, held_out, {"return": 0.0}, held_out | {"answer": "e"}, counts])

    assert tables == {
        "rollouts": SampleTable([*rollout], [[*rollout.values()]]),
        "answers": SampleTable(
            ["prompt", "response", "answer"], [["c", "d", None], ["c", "d", "e"]]
        ),
        "others": SampleTable(["return"], [[0.0]]),
        "problems": SampleTable(["problem", "n", "c"], [["1f", 4, 1]]),
    }
    assert sample_tables([]) == {}


ROLLOUT = {"prompt": "a", "response": "b", "tokens": ["b"], "ratio": [None], "reward": 1}
ANSWERS = [{"prompt": "c", "response": "d", "reward": value} for value in (None, 0.5)]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run of three steps that leaves a picture and a page."""
    pytest.importorskip("wandb")
    folder = tmp_path_factory.mktemp("run")
    with pytest.MonkeyPatch.context() as patch:
        forget_user(patch, folder)
        patch.setenv("WANDB_SILENT", "true")
        patch.setenv("TMPDIR", str(tmp_path_factory.mktemp("tmp")))
        settings = {"group": "night", "job_type": "loss", "tags": ["loss=grpo"]}
        tracker = WandB(directory=str(folder), **SETTINGS | settings | {"run_name": "loss=grpo"})
        tracker.config = {"loss": {"clip": 0.2}, "choices": {"loss": "grpo", "loss/ratio": "token"}}
        tracker.report_files = lambda: [picture(folder / "curve.png"), page(folder / "report.html")]
        tracker.start(PHASES, 0)
        held = [
            {"evaluation/sampled": value, "evaluation/nats": value} for value in (0.5, 0.75, 0.25)
        ]
        for total, more in enumerate(held, 1):
            cost = {"rollout/tokens": 10.0 * total, "time/step": 2.0, "reward/mean": 0.5 * total}
            samples = [ROLLOUT, *ANSWERS] if total == 2 else []
            tracker.log(total, "rl", total, {**cost, **more}, samples)
        tracker.phase_ended(3, {"phase": "rl", "reason": "enough"})
        place = json.loads(json.dumps(tracker.position()))
        tracker.finish()
        return folder, decoded(folder), place


def picture(file):
    from matplotlib.figure import Figure

    Figure(figsize=(1, 1)).savefig(file)
    return file


def page(file):
    file.write_text("<!doctype html><title>a report</title>")
    return file


@pytest.mark.slow
def test_a_run_has_its_name_group_job_type_and_tags(run):
    _, found, place = run

    assert found.run.display_name == "loss=grpo"
    assert (found.run.run_group, found.run.job_type) == ("night", "loss")
    assert [*found.run.tags] == ["loss=grpo"]
    assert found.run.run_id == place["id"]
    assert found.exit_code == 0


@pytest.mark.slow
def test_choices_stand_flat_beside_the_nodes(run):
    _, found, _ = run

    assert found.config["loss"] == {"clip": 0.2}
    assert found.config["choices"] == {"loss": "grpo", "loss/ratio": "token"}


@pytest.mark.slow
def test_every_row_has_its_place_on_the_axes_that_metrics_are_drawn_along(run):
    _, found, _ = run

    rows = [[row[f"axis/{name}"] for name in ("step", "tokens", "seconds")] for row in found.rows]
    # 10, 10 + 20, 10 + 20 + 30 tokens; two seconds a step.
    assert rows == [[1, 10, 2], [2, 30, 4], [3, 60, 6]]
    assert [row["_step"] for row in found.rows] == [1, 2, 3]
    metrics = {one.name or one.glob_name: one for one in found.by_kind["metric"]}
    assert metrics["*"].step_metric == "axis/step"
    hidden = {name for name, one in metrics.items() if one.options.hidden}
    assert hidden == {"axis/step", "axis/tokens", "axis/seconds"}


@pytest.mark.slow
def test_the_summary_has_held_out_results_last_and_best(run):
    _, found, _ = run

    assert (found.summary["evaluation/sampled"], found.summary["best/sampled"]) == (0.25, 0.75)
    assert (found.summary["evaluation/nats"], found.summary["best/nats"]) == (0.25, 0.25)
    assert "best/reward/mean" not in found.summary
    assert (found.summary["phase"], found.summary["ended/rl"]) == ("rl", "enough")


@pytest.mark.slow
def test_samples_are_one_table_a_kind(run):
    folder, found, _ = run

    tables = {}
    for name in ("rollouts", "answers"):
        assert found.rows[1][f"samples/{name}/_type"] == "table-file"
        (file,) = folder.glob(f"wandb/offline-run-*/files/media/table/samples/{name}_*.json")
        tables[name] = json.loads(file.read_text())
    assert tables["rollouts"]["columns"] == ["prompt", "response", "tokens", "ratio", "reward"]
    assert tables["answers"]["data"] == [["c", "d", None], ["c", "d", 0.5]]
    assert not [key for row in found.rows for key in row if key.startswith("samples/others")]


@pytest.mark.slow
def test_curve_and_report_are_media_and_an_artifact(run):
    folder, found, place = run

    assert found.rows[2]["media/curve/_type"] == "image-file"
    assert found.rows[2]["media/report/_type"] == "html-file"
    (html,) = folder.glob("wandb/offline-run-*/files/media/html/media/report_*.html")
    assert html.read_text() == (folder / "report.html").read_text()
    (report,) = [one for one in found.by_kind["artifact"] if one.type == "report"]
    assert report.name == f"run-{place['id']}-report"
    assert [entry.path for entry in report.manifest.contents] == ["curve.png", "report.html"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("error", "code"),
    [(ValueError("boom"), 1), (Interrupted("saved"), 75)],
)
def test_wandb_is_told_the_exit_code_and_the_error(nobody, error, code, capsys):
    pytest.importorskip("wandb")
    tracker = WandB(directory=str(nobody), **SETTINGS)
    tracker.report_files = lambda: pytest.fail(
        "a run that has not finished leaves nothing to look at"
    )
    tracker.start(PHASES, 0)
    tracker.log(1, "rl", 1, {"reward/mean": 0.5}, [])
    tracker.finish(error)

    found = decoded(nobody)
    assert found.exit_code == code
    assert found.summary["error"] == f"{type(error).__name__}: {error}"
    # What W&B calls preempted: the next agent of the sweep takes the run up again.
    assert ("preempting" in found.by_kind) == isinstance(error, Interrupted)
    (folder,) = (nobody / "wandb").glob("offline-run-*")
    assert f"W&B offline; upload with: wandb sync {folder}" in capsys.readouterr().out


@pytest.mark.slow
def test_a_report_that_cannot_be_made_is_no_success(nobody):
    pytest.importorskip("wandb")
    tracker = WandB(directory=str(nobody), **SETTINGS)
    tracker.report_files = lambda: [Path("nowhere.html")]
    tracker.start(PHASES, 0)

    with pytest.raises(FileNotFoundError, match=r"nowhere\.html"):
        tracker.finish()

    assert decoded(nobody).exit_code == 1


def test_a_resumed_run_keeps_its_id_its_axes_and_its_best(tmp_path):
    tracker = WandB(directory=str(tmp_path), **SETTINGS)
    spent = {"axis/tokens": 60.0, "axis/seconds": 6.0}
    place = {"id": "abc", "spent": spent, "best": {"evaluation/sampled": 0.75}}
    tracker.rewind(place)

    assert tracker.position() == place
    tracker.rewind({"id": "abc"})  # of a checkpoint that kept no more
    assert tracker.position() == place | {"best": {}}


def test_finishing_what_never_started_is_no_error(tmp_path):
    WandB(directory=str(tmp_path), **SETTINGS).finish()

    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_job_of_an_agent_has_the_agents_id(nobody, monkeypatch):
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_RUN_ID", "given1")
    tracker = WandB(directory=str(nobody), **SETTINGS)
    tracker.start(PHASES, 0)
    tracker.finish()

    assert tracker.position()["id"] == "given1"
    assert decoded(nobody).run.run_id == "given1"


@pytest.mark.slow
def test_a_whole_run_is_recorded_with_its_report_and_without_empty_slots(rlcomp, nobody):
    pytest.importorskip("wandb")
    words = ["advantage=leave_one_out", "seed=3", "tracker=wandb", "phases.warm_start.steps=1"]
    words += ["phases.rl.steps=1", "prompts.batch_size=2", "rollout.group_size=2"]
    words += ["demonstrations.batch_size=8", "evaluation.num_prompts=4"]
    assert rlcomp(*words, f"directory={nobody / 'run'}") == 0

    found = decoded(nobody / "run")
    assert found.run.display_name == "grpo advantage=leave_one_out seed=3"
    assert [*found.run.tags] == ["recipe=grpo", "advantage=leave_one_out"]
    assert found.config["choices"]["advantage"] == "leave_one_out"
    assert found.config["choices"]["loss@learner/losses/kl"] == "kl"
    assert found.config["advantage"]["_target_"].endswith("LeaveOneOut")
    assert not any(group.startswith("hydra") for group in found.config["choices"])
    # Slots that are empty in GRPO have no series; those that are not have one.
    last = found.rows[-1]
    assert "time/learner" in last
    assert not {"time/feedback", "time/shaping", "time/value"} & {*last}
    assert (last["media/curve/_type"], last["media/report/_type"]) == ("image-file", "html-file")
    assert found.exit_code == 0


def die_by_exit():
    os._exit(7)


def die_by_signal():
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.slow
@pytest.mark.parametrize(("die", "code"), [(die_by_exit, 1), (die_by_signal, 137)])
def test_the_record_of_a_run_that_dies_is_whole_and_closed_with_its_code(nobody, die, code, capsys):
    pytest.importorskip("wandb")
    settings = {"directory": str(nobody), **SETTINGS}
    watch = SharedStatus(supervised=True)

    def job():
        tracker = WandB(**settings)
        tracker.start(PHASES, 0)
        for total in (1, 2):
            tracker.log(total, "rl", total, {"reward/mean": total / 2}, [])
        die()

    with pytest.raises(Died), closing_tracker(WandB, settings, watch):
        run_in_child(job, watch)

    found = decoded(nobody)
    assert found.exit_code == code
    assert found.summary["error"].startswith("Died: the run ")
    assert [row["reward/mean"] for row in found.rows] == [0.5, 1.0]
    (folder,) = (nobody / "wandb").glob("offline-run-*")
    assert f"W&B offline; upload with: wandb sync {folder}" in capsys.readouterr().out
    assert "WANDB_SERVICE" not in os.environ


@pytest.mark.slow
def test_a_run_that_says_how_it_failed_is_closed_once(nobody):
    pytest.importorskip("wandb")
    settings = {"directory": str(nobody), **SETTINGS}
    watch = SharedStatus(supervised=True)

    def job():
        tracker = WandB(**settings)
        tracker.start(PHASES, 0)
        tracker.finish(Interrupted("saved"))
        raise Interrupted("saved")

    with pytest.raises(Interrupted), closing_tracker(WandB, settings, watch):
        run_in_child(job, watch)

    found = decoded(nobody)
    assert [one.exit_code for one in found.by_kind["exit"]] == [75]
