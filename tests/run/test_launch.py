"""What may be continued, and where."""

import json
import shlex
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from hydra.types import RunMode
from omegaconf import OmegaConf

from rlcomp.config.plan import Plan, read
from rlcomp.files.json_lines import read_lines
from rlcomp.files.shared_status import SharedStatus
from rlcomp.run import launch as module
from rlcomp.run.launch import launch, place_on, resume_command

SMALL = (
    "phases.warm_start.steps=2",
    "phases.rl.steps=2",
    "prompts.batch_size=4",
    "rollout.group_size=4",
    "demonstrations.batch_size=8",
    "evaluation.num_prompts=8",
)


def numbers(directory):
    rows = read_lines(directory / "metrics.jsonl")
    return [{k: v for k, v in row.items() if not k.startswith("time/")} for row in rows]


@pytest.fixture
def warm(rlcomp, tmp_path):
    """A finished run; its first checkpoint stands after the warm start."""
    assert rlcomp(*SMALL, f"directory={tmp_path / 'warm'}") == 0
    return tmp_path / "warm" / "checkpoints" / "step-00000002"


@pytest.mark.slow
def test_a_path_is_not_continued_over_the_record_of_another_run(rlcomp, tmp_path, warm, capsys):
    assert rlcomp(*SMALL, f"directory={tmp_path / 'other'}", "seed=1") == 0
    before = (tmp_path / "other" / "metrics.jsonl").read_bytes()

    code = rlcomp(*SMALL, f"directory={tmp_path / 'other'}", "seed=1", f"resume={warm}")

    assert code == 2
    assert "holds the record of another run" in capsys.readouterr().err
    assert (tmp_path / "other" / "metrics.jsonl").read_bytes() == before


@pytest.mark.slow
def test_seeds_branch_off_one_warm_start(rlcomp, tmp_path, warm):
    for seed in (0, 1):
        branch = [f"seed={seed}", f"resume={warm}", f"directory={tmp_path / str(seed)}"]
        assert rlcomp(*SMALL, *branch) == 0

    assert numbers(tmp_path / "0") == numbers(tmp_path / "warm")[2:]
    assert numbers(tmp_path / "1") != numbers(tmp_path / "0")


def test_what_the_optimiser_is_set_to_comes_from_the_config(rlcomp, tmp_path, warm):
    decayed = ["learner.optimizer.weight_decay=0.7", f"resume={warm}"]
    assert rlcomp(*SMALL, *decayed, f"directory={tmp_path / 'decayed'}") == 0

    state = json.loads(
        (tmp_path / "decayed" / "checkpoints" / "step-00000004" / "state.json").read_text()
    )
    assert "0.7" in json.dumps(state["nodes"]["learner:"])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:job 0")
def test_a_failing_job_of_a_parallel_sweep_fails_the_sweep(rlcomp, tmp_path, capfd):
    sweep = ["-m", "rollout.group_size=1,4", f"directory={tmp_path}", *SMALL]
    sizes = [word for word in sweep if word != "rollout.group_size=4"]

    assert rlcomp(*sizes, "hydra/launcher=joblib", "hydra.launcher.n_jobs=2") == 2

    assert "rollout.group_size is 1" in capfd.readouterr().err
    assert len(numbers(tmp_path / "1")) == 4  # the other job is not lost


def test_a_directory_that_cannot_be_written_is_told(rlcomp, capsys):
    assert rlcomp(*SMALL, "directory=/dev/null/x") == 2

    assert "/dev/null/x" in capsys.readouterr().err


def test_the_command_that_goes_on_has_every_word_but_its_directory_and_resume(monkeypatch):
    words = [
        "recipe=grpo",
        "+mine='a b'",
        "directory=old",
        "seed=3",
        "+resume=never",
        "overwrite=true",
    ]
    monkeypatch.setattr("sys.argv", ["rlcomp", *words])

    assert shlex.split(resume_command(Path("new"))) == [
        "rlcomp",
        "recipe=grpo",
        "+mine='a b'",
        "seed=3",
        "directory=new",
        "resume=auto",
    ]


def test_a_run_has_the_status_of_its_caller_or_one_of_its_own(tmp_path, monkeypatch):
    status, statuses = SharedStatus(), []
    config = OmegaConf.create({"directory": str(tmp_path), "seed": 0, "resume": "never"})
    monkeypatch.setattr(module, "_claim_directory", lambda *arguments: None)
    monkeypatch.setattr(
        module, "run_phases", lambda phases, **settings: statuses.append(settings["status"])
    )

    launch(config, Plan({}, {}, {}), status)
    launch(config, Plan({}, {}, {}))

    assert statuses[0] is status
    assert isinstance(statuses[1], SharedStatus)


@pytest.mark.parametrize(
    ("mode", "directory"), [(None, "day/0"), (RunMode.RUN, "day/0"), (RunMode.MULTIRUN, "day")]
)
def test_a_job_of_a_sweep_goes_on_with_its_sweep(monkeypatch, mode, directory):
    started = SimpleNamespace(initialized=lambda: mode is not None)
    if mode is not None:
        started.get = lambda: SimpleNamespace(mode=mode)
    monkeypatch.setattr("rlcomp.run.launch.HydraConfig", started)
    monkeypatch.setattr("sys.argv", ["rlcomp", "seed=3"])

    assert resume_command(Path("day/0")) == f"rlcomp seed=3 directory={directory} resume=auto"


def test_wandb_is_told_the_config_and_other_trackers_are_not(tmp_path, monkeypatch):
    from hydra.core.hydra_config import HydraConfig

    from rlcomp.run.launch import trackers
    from rlcomp.trackers.tensorboard import TensorBoard
    from rlcomp.trackers.wandb import WandB

    # No run has begun: a test of the command line in this process may have left its own.
    monkeypatch.setattr(HydraConfig.instance(), "cfg", None)
    values = {"seed": 3, "rate": "${seed}", "part": {"rate": "${rate}"}, "directory": str(tmp_path)}
    config = OmegaConf.create(values)
    plan = read(config)[0]
    labels = {"run_name": None, "group": None, "job_type": None, "tags": []}
    wandb = WandB(directory=str(tmp_path), project="p", **labels)
    board = TensorBoard(directory=str(tmp_path))

    assert [type(each).__name__ for each in trackers({}, config, plan)] == [
        "JsonLines",
        "Display",
    ]
    assert trackers({"tracker": wandb}, config, plan)[2] is wandb
    settings = {"seed": 3, "rate": 3, "part": {"rate": 3}, "directory": str(tmp_path)}
    assert wandb.config == {**settings, "choices": {}}
    assert wandb.report_files() == []
    trackers({"tracker": wandb}, config, plan, lambda directory: [directory / "curve.png"])
    assert wandb.report_files() == [tmp_path / "curve.png"]
    assert trackers({"tracker": board}, config, plan)[2] is board
    assert not hasattr(board, "config")


def test_a_tracker_is_shown_the_values_that_are_used(monkeypatch):
    from hydra.core.hydra_config import HydraConfig

    from rlcomp.run.launch import tracker_config

    monkeypatch.setattr(HydraConfig.instance(), "cfg", None)
    monkeypatch.setenv("KEY_OF_MINE", "secret")
    part = {"_target_": "torch.nn.Linear", "in_features": "${size}", "out_features": 4}
    config = OmegaConf.create(
        {
            "seed": 3,
            "size": 2,
            "out_features": 16,
            "idle": 5,
            "layer": part,
            "other": {"_target_": "torch.nn.Identity", "layer": "${layer}", "sizes": "${sizes}"},
            "sizes": ["${size}", None],
            "key": {"of": "${oc.env:KEY_OF_MINE}"},
        }
    )

    shown = tracker_config(config, read(config)[0])

    assert shown == {
        "seed": 3,
        "size": 2,  # it is referred to
        "out_features": 4,  # what the part uses, not what stands at the root; idle is nobody's
        "layer": {"_target_": "torch.nn.Linear", "in_features": 2, "out_features": 4},
        "other": {"_target_": "torch.nn.Identity", "layer": "${layer}", "sizes": [2, None]},
        "sizes": [2, None],
        "key": {"of": "${oc.env:KEY_OF_MINE}"},
        "choices": {},
    }


def test_what_may_change_when_a_run_is_continued():
    from rlcomp.run.resume import _is_changeable

    free = [
        "directory",
        "resume",
        "overwrite",
        "accept_changed_files",
        "device",
        "tracker.project",
        "trust",
        "model.trust",
    ]
    assert all(map(_is_changeable, free))
    assert not any(
        map(_is_changeable, ["seed", "model", "model.directory", "model.trusted", "loss.device"])
    )


@pytest.mark.parametrize(
    ("resume", "then", "names"),
    [
        ("auto", None, ["data", "log"]),
        ("auto", {"data": {}}, ["data"]),
        ("must", {"data": {}}, ["data"]),
        ("run/checkpoints/step-00000002", {"data": {}}, ["data", "log"]),
        ("auto", {}, []),
    ],
)
def test_a_file_that_came_while_a_run_went_on_is_none_of_its_inputs(
    monkeypatch, tmp_path, resume, then, names
):
    file = tmp_path / "file"
    file.write_text("")
    files = {name: {str(file): file} for name in ("data", "log")}
    monkeypatch.setattr(module, "input_files", lambda *_: files)
    config = OmegaConf.create({"resume": resume, "directory": str(tmp_path)})
    saved = SimpleNamespace(position=lambda: {} if then is None else {"inputs": then})

    found = module._inputs(config, SimpleNamespace(plan=None, built={}), saved)

    assert [*found] == names
    assert all(set(map(len, group.values())) == {64} for group in found.values())
    if then is None:
        assert [*module._inputs(config, SimpleNamespace(plan=None, built={}), None)] == names


def test_every_module_goes_to_the_device():
    nodes = {"seed": 3, "model": torch.nn.Linear(2, 1), "critic": torch.nn.BatchNorm1d(2)}

    place_on(torch.device("meta"), nodes)

    of_both = [*nodes["model"].parameters(), *nodes["critic"].buffers()]
    assert {tensor.device.type for tensor in of_both} == {"meta"}
