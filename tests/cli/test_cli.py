"""The command line: runs, sweeps, what Hydra offers, a user's own parts, exit codes."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import rlcomp as package

HOME = Path(package.__file__).parents[1]
TINY = [
    "phases.warm_start.steps=2",
    "phases.rl.steps=2",
    "prompts.batch_size=4",
    "rollout.group_size=2",
    "evaluation.num_prompts=8",
    "demonstrations.batch_size=8",
    "model.hidden_size=16",
    "model.intermediate_size=16",
]


def environment():
    # Without the measuring of coverage, which would be timed as well.
    own = {name: value for name, value in os.environ.items() if not name.startswith("COV")}
    return {**own, "PYTHONPATH": str(HOME), "OMP_NUM_THREADS": "1"}


def metrics(directory):
    rows = [json.loads(line) for line in (directory / "metrics.jsonl").read_text().splitlines()]
    return [{k: v for k, v in row.items() if not k.startswith("time/")} for row in rows]


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """One whole run, in a process and a working directory of its own."""
    folder = tmp_path_factory.mktemp("cli")
    done = subprocess.run(
        [sys.executable, "-m", "rlcomp", *TINY, "directory=run"],
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    return folder / "run", done


def test_a_run_ends_with_its_summary_and_0(finished):
    _, done = finished

    assert done.returncode == 0, done.stderr
    assert re.fullmatch(
        r"held-out accuracy: sampled \d\.\d\d greedy \d\.\d\d", done.stdout.splitlines()[-1]
    )
    assert done.stdout.startswith("seed 0: warm_start for 2 steps, then rl for 2 steps\n")
    assert done.stderr == ""


def test_a_run_leaves_metrics_samples_checkpoints_and_a_curve(finished):
    directory, _ = finished

    assert [row["total"] for row in metrics(directory)] == [1, 2, 3, 4]
    assert (directory / "curve.png").read_bytes().startswith(b"\x89PNG")
    assert (directory / "samples.jsonl").stat().st_size > 0
    assert (directory / "checkpoints" / "step-00000004" / "config.yaml").is_file()


def test_the_stored_config_is_that_of_the_run(finished):
    directory, _ = finished
    text = (directory / "checkpoints" / "step-00000004" / "config.yaml").read_text()

    assert f"directory: {directory.resolve()}" in text
    assert "model: ${adapter}" in text, "references stay references"


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    """Two recipes x two seeds in one process; W&B is only noted, not run."""
    from hydra.core.global_hydra import GlobalHydra

    from rlcomp.cli.run import main
    from rlcomp.trackers.wandb import WandB

    folder = tmp_path_factory.mktemp("sweep") / "all"
    made = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(WandB, "start", lambda self, phases, done: made.append(vars(self)))
        for name in ("log", "finish"):
            patch.setattr(WandB, name, lambda self, *_: None)
        sweep = ["-m", "recipe=grpo,shuffled_rewards", "seed=0,1", "tracker=wandb"]
        patch.setattr(sys, "argv", ["rlcomp", *sweep, *TINY, f"directory={folder}"])
        GlobalHydra.instance().clear()
        main(apart=False)
    return folder, made


@pytest.mark.slow
def test_a_sweep_runs_every_job_in_a_directory_of_its_own(swept):
    folder, _ = swept

    assert sorted(path.parent.name for path in folder.glob("*/metrics.jsonl")) == list("0123")
    assert metrics(folder / "0") != metrics(folder / "1")


@pytest.mark.slow
def test_the_jobs_of_a_sweep_do_not_shift_one_another(swept, finished):
    assert metrics(swept[0] / "0") == metrics(finished[0])


@pytest.mark.slow
def test_a_sweep_gives_its_jobs_name_group_job_type_and_tags(swept):
    _, made = swept

    assert [job["group"] for job in made] == ["all"] * 4
    assert [job["job_type"] for job in made] == ["recipe"] * 4
    recipes = ["recipe=grpo"] * 2 + ["recipe=shuffled_rewards"] * 2
    assert [[*job["tags"]] for job in made] == [[recipe] for recipe in recipes]
    assert [job["run_name"] for job in made] == [
        f"{recipe} seed={seed}" for recipe, seed in zip(recipes, "0101", strict=True)
    ]


def test_the_config_can_be_printed_without_a_run(rlcomp, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    assert rlcomp("--cfg", "job", "recipe=grpo", "seed=7") == 0

    printed = capsys.readouterr().out
    assert "seed: 7" in printed
    assert "_target_: components.loss.policy.PolicyLoss" in printed
    assert list(tmp_path.iterdir()) == []


def test_help_names_the_groups_within_a_second_of_cpu_and_without_torch(tmp_path):
    code = """
import sys, time
sys.argv = ["rlcomp", "--help"]
from rlcomp.cli.run import main
try:
    main()
finally:
    heavy = {"torch", "tensordict", "transformers", "components.loss"} & set(sys.modules)
    print(sorted(heavy), time.process_time(), file=sys.stderr)
"""
    spent = []
    for _ in range(3):  # the first one may have to compile, and a busy machine is not a bug
        done = subprocess.run(
            [sys.executable, "-c", code],
            cwd=tmp_path,
            env=environment(),
            capture_output=True,
            text=True,
            check=True,
        )
        loaded, seconds = done.stderr.rsplit(maxsplit=1)
        spent.append(float(seconds))
        if spent[-1] < 1:
            break

    assert re.search(r"^recipe: .*grpo", done.stdout, re.MULTILINE)
    assert "rlcomp recipe=grpo seed=1" in done.stdout
    assert loaded == "[]"
    assert min(spent) < 1


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("rlcomp recip", {"recipe="}),
        ("rlcomp recipe=g", {"recipe=grpo", "recipe=gsm8k"}),
        ("rlcomp rollout.gr", {"rollout.group_size="}),
    ],
)
def test_tab_completes_groups_options_and_keys(rlcomp, capsys, monkeypatch, line, offered):
    monkeypatch.setenv("COMP_LINE", line)
    monkeypatch.setenv("COMP_POINT", str(len(line)))

    assert rlcomp("-sc", "query=bash") == 0

    assert offered <= set(capsys.readouterr().out.split())


OWN_PART = '''
from rlcomp.interfaces.advantage import broadcast
from rlcomp.component import Component


class Half(Component):
    """Half the reward."""

    reads = ("reward", "response_mask")
    writes = ("advantage",)

    def forward(self, batch):
        return broadcast(batch, batch["reward"] / 2)
'''


@pytest.fixture
def own_parts(tmp_path, monkeypatch):
    """A user's folder: a module with an advantage, and a config directory with an option for it."""
    (tmp_path / "own_parts.py").write_text(OWN_PART)
    (tmp_path / "own" / "advantage").mkdir(parents=True)
    (tmp_path / "own" / "advantage" / "half.yaml").write_text("_target_: own_parts.Half\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_users_own_part_runs_from_the_working_directory(rlcomp, own_parts):
    assert len(OWN_PART.strip().splitlines()) < 15

    code = rlcomp("-cd", "own", "advantage=half", *TINY, f"directory={own_parts / 'run'}")

    assert code == 0
    assert "advantage" not in metrics(own_parts / "run")[0]
    config = next((own_parts / "run" / "checkpoints").glob("*/config.yaml"))
    assert "_target_: own_parts.Half" in config.read_text()


def test_a_users_own_options_are_offered_when_one_is_mistyped(rlcomp, own_parts, capsys):
    code = rlcomp("-cd", "own", "advantage=halv")

    assert code == 2
    assert "did you mean 'half'?" in capsys.readouterr().err


def wait_for(condition, process):
    deadline = time.monotonic() + 300  # of a machine that does much else
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline, "too slow"
        time.sleep(0.02)


def count(file):
    return len(file.read_text().splitlines()) if file.is_file() else 0


@pytest.mark.slow
def test_a_terminated_run_says_how_to_go_on_and_does_bit_identically(tmp_path):
    long = [*TINY, "phases.rl.steps=60", "phases.rl.every.evaluation=null", "checkpoint.keep=1"]
    start = [sys.executable, "-m", "rlcomp", *long, "directory=cut"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    process = subprocess.Popen(start, cwd=tmp_path, env=environment(), **pipes)
    wait_for(lambda: count(tmp_path / "cut" / "metrics.jsonl") >= 4, process)
    process.send_signal(signal.SIGTERM)
    _, message = process.communicate(timeout=60)

    assert process.returncode == 75
    stopped = count(tmp_path / "cut" / "metrics.jsonl")
    assert 4 <= stopped < 62
    _, answer, told = message.splitlines()
    assert answer.startswith("rlcomp: stopping at the end of this step; still in stage '")
    assert told.startswith(f"rlcomp: stopped in phase rl after step {stopped - 2}, saved; go ")

    program, *words = shlex.split(told.partition("go on with: ")[2])
    assert program == "rlcomp"
    again = subprocess.run(
        [sys.executable, "-m", "rlcomp", *words],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert again.returncode == 0, again.stderr
    assert f"continued after step {stopped}" in again.stdout

    in_one_piece(tmp_path, [*long, f"directory={tmp_path / 'whole'}"])
    assert metrics(tmp_path / "cut") == metrics(tmp_path / "whole")


def in_one_piece(folder, words):
    from rlcomp.config.compose import compose_config
    from rlcomp.config.resolve import plan_of
    from rlcomp.run.launch import launch

    config = compose_config(words)
    launch(config, plan_of(config))


def test_a_sweep_that_is_stopped_stops_altogether(rlcomp, tmp_path, capsys, monkeypatch):
    from rlcomp.errors import Interrupted
    from rlcomp.run import launch

    started = []

    def stop(*_, **__):
        started.append(1)
        raise Interrupted("stopped in phase rl after step 1, saved")

    monkeypatch.setattr(launch, "run_phases", stop)
    code = rlcomp("-m", "seed=0,1", *TINY, f"directory={tmp_path / 'all'}")

    assert code == 75
    assert len(started) == 1
    message = capsys.readouterr().err
    assert f"directory={tmp_path / 'all'} resume=auto" in message
    assert "rlcomp -m seed=0,1 " in message


def test_a_mistake_of_ours_is_a_traceback_not_a_message(rlcomp, tmp_path, monkeypatch, capsys):
    from rlcomp.run import launch

    def broken(*_, **__):
        raise ValueError("an invariant")

    monkeypatch.setattr(launch, "run_phases", broken)

    assert rlcomp(*TINY, f"directory={tmp_path}") == 1

    error = capsys.readouterr().err
    assert error.startswith("Traceback (most recent call last):\n")
    assert 'test_cli.py", line ' in error
    assert error.endswith("\nValueError: an invariant\n")


def test_a_loss_of_torchrls_that_cannot_run_is_refused_before_anything_is_built(rlcomp, capsys):
    code = rlcomp("loss._target_=torchrl.objectives.llm.GRPOLoss")

    error = capsys.readouterr().err
    assert code == 2
    assert error.count("\n") == 1
    assert "loss._target_ is torchrl.objectives.llm.GRPOLoss: it reads chat rows" in error
    assert error.endswith("use loss=grpo\n")


def test_a_loss_of_torchs_is_refused_before_anything_is_built(rlcomp, capsys):
    code = rlcomp("~loss", "+loss._target_=torch.nn.CrossEntropyLoss")

    error = capsys.readouterr().err
    assert code == 2
    assert "loss._target_ is torch.nn.CrossEntropyLoss: it reads tensors, but a loss" in error
