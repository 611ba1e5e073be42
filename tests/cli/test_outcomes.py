"""Every way a run can end: exit code, message, ``failure.json``, what the trackers were told."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hydra.core.global_hydra import GlobalHydra

import rlcomp as package
from rlcomp.cli.run import main
from rlcomp.config.compose import compose_config
from rlcomp.config.resolve import plan_of
from rlcomp.report.runs import find_runs
from rlcomp.report.summary import summarise
from rlcomp.run.launch import launch

HOME = Path(package.__file__).parents[1]
TINY = [
    "~phases.warm_start",
    "phases.rl.steps=3",
    "phases.rl.every={checkpoint: 1, evaluation: null}",
    "prompts.batch_size=2",
    "rollout.group_size=2",
    "model.hidden_size=16",
    "model.intermediate_size=16",
    "max_new_tokens=6",
]
# Four rows a step: the sixth call is row 1 of step 2.
REWARDS = """
import os, shutil, signal, sys, time
from pathlib import Path
from rlcomp.errors import NumericalError

calls = 0

def sixth(act):
    global calls
    calls += 1
    if calls == 6:
        act()
    return 1.0

def fine(prompt, response): return sixth(lambda: None)
def broken(prompt, response): return sixth(lambda: int("no\\x1b[2J number"))
def leaves(prompt, response): return sixth(lambda: sys.exit(0))
def ends(prompt, response): return sixth(lambda: os._exit(0))
def crashes(prompt, response): return sixth(lambda: os.kill(os.getpid(), signal.SIGSEGV))
def deletes(prompt, response): return sixth(lambda: shutil.rmtree(os.environ["OUTCOMES_RUN"]))
def infinite(prompt, response):
    def act(): raise NumericalError("the gradient of 'w' is not finite")
    return sixth(act)
def fills(prompt, response):
    opened = Path.open
    def full(path, mode="r", *more, **settings):
        if path.name == "metrics.jsonl" and mode == "a":
            raise OSError(28, os.strerror(28), str(path))
        return opened(path, mode, *more, **settings)
    return sixth(lambda: setattr(Path, "open", full))
def waits(prompt, response):
    def act():
        Path(os.environ["OUTCOMES_RUN"], "waiting").touch()
        time.sleep(3)
    return sixth(act)
"""


def reward(name):
    return [
        "reward=function",
        f"reward.function={{_target_: outcome_rewards.{name}, _partial_: true}}",
    ]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "outcome_rewards.py").write_text(REWARDS)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", f"{HOME}{os.pathsep}{tmp_path}")
    monkeypatch.setenv("OUTCOMES_RUN", str(tmp_path / "run"))
    yield tmp_path
    sys.modules.pop("outcome_rewards", None)


@pytest.fixture(scope="module")
def imported(tmp_path_factory):
    """What a run imports, for all the processes of runs to be forked."""
    config = compose_config([*TINY, f"directory={tmp_path_factory.mktemp('first')}"])
    launch(config, plan_of(config))
    summarise(config.directory)


@pytest.fixture
def play(monkeypatch, folder, capfd, imported):
    """The command line in this process, its runs in their own: exit code, stderr, failure."""

    def run(*words):
        GlobalHydra.instance().clear()
        monkeypatch.setattr("sys.argv", ["rlcomp", *words, *TINY, f"directory={folder / 'run'}"])
        code = 0
        try:
            main()
        except SystemExit as leaving:
            code = leaving.code
        file = folder / "run" / "failure.json"
        return code, capfd.readouterr().err, json.loads(file.read_text()) if file.is_file() else {}

    return run


def test_a_run_that_did_every_step_ends_with_0_and_leaves_no_failure(play, folder):
    assert play(*reward("fine")) == (0, "", {})
    assert not (folder / "run" / ".reserved").exists()


# By reward: exit code, type, what the message says and what it tells to do.
ENDS = {
    "leaves": (
        1,
        "ProcessEnded",
        "reward (FunctionReward) ends the process",
        "raise an error there",
    ),
    "ends": (1, "Died", "the run ended its process", "raise an error there instead"),
    "infinite": (3, "NumericalError", "gradient of 'w' is not finite", "smaller learning rate"),
    "deletes": (74, "StorageError", "No such file or directory", "was the directory deleted"),
    "fills": (74, "StorageError", "No space left on device", "once there is room"),
}


@pytest.mark.parametrize("name", ENDS)
def test_what_ends_a_run_is_one_message_with_place_and_remedy(play, name):
    code, kind, *words = ENDS[name]

    ended, error, failure = play(*reward(name))

    stored = kind == "StorageError"
    stage = "writing the metrics" if stored else "reward (FunctionReward)"
    assert ended == code
    assert error.startswith("rlcomp: ")
    assert "Traceback" not in error
    for word in [*words, stage.split(" (")[0], "'rl'", "step 2"]:
        assert word in error
    assert error == f"rlcomp: {failure['error']}\n"
    place = {key: failure[key] for key in ("type", "exit_code", "phase", "step", "steps", "stage")}
    assert place == {
        "type": kind, "exit_code": code, "phase": "rl", "step": 2, "steps": 3, "stage": stage,
    }  # fmt: skip


def test_an_exception_of_a_reward_keeps_its_lines_and_names_its_row(play, folder):
    code, error, failure = play(*reward("broken"))

    assert code == 1
    assert error.startswith("Traceback (most recent call last):\n")
    line = REWARDS[: REWARDS.index("def broken")].count("\n") + 1
    assert f'File "{folder / "outcome_rewards.py"}", line {line}, in <lambda>' in error
    assert "/hydra/" not in error + failure["traceback"]
    assert "\nValueError: invalid literal for int() with base 10: 'no\\x1b[2J number'\n" in error
    assert "\x1b" not in error
    assert "\nrow 1: prompt '" in error
    assert "in stage 'reward' (FunctionReward), phase 'rl', step 2; batch (4,)" in error
    assert (failure["type"], failure["stage"], failure["step"]) == (
        "ValueError",
        "reward (FunctionReward)",
        2,
    )


@pytest.mark.slow
def test_a_run_goes_on_where_its_process_was_ended(play, metrics, folder):
    assert play(*reward("ends"))[0] == 1
    sys.modules.pop("outcome_rewards", None)
    # Continued from step 1, the sixth call is row 1 of step 3.
    assert play(*reward("ends"))[2]["step"] == 3
    assert play(*reward("ends")) == (0, "", {})
    assert [row["total"] for row in metrics(folder / "run")] == [1, 2, 3]


@pytest.mark.slow
def test_a_job_that_ends_its_process_does_not_take_the_others_along(play, folder):
    names = [f"outcome_rewards.{name}" for name in ("fine", "crashes", "ends", "fine")]

    code, error, _ = play("-m", *reward("fine"), f"reward.function._target_={','.join(names)}")

    assert code == 1
    assert (
        "rlcomp: job 1: the run was killed by SIGSEGV in stage 'reward (FunctionReward)'" in error
    )
    assert "rlcomp: job 2: the run ended its process in stage 'reward (FunctionReward)'" in error
    runs = find_runs([str(folder / "run")])
    assert [run.state for run in runs] == ["finished", "failed", "failed", "finished"]
    assert [run.steps for run in runs] == [3, 1, 1, 3]


def rlcomp(folder, *words, **pipes):
    return subprocess.Popen(
        [sys.executable, "-m", "rlcomp", *words, *TINY, "directory=run"],
        cwd=folder, stderr=subprocess.PIPE, text=True, start_new_session=True, **pipes,
    )  # fmt: skip


@pytest.mark.slow
def test_a_crash_is_told_and_ends_the_command_by_the_same_signal(folder):
    with rlcomp(folder, *reward("crashes")) as process:
        _, error = process.communicate(timeout=300)

    assert process.returncode == -signal.SIGSEGV
    assert error.startswith(
        "rlcomp: the run was killed by SIGSEGV in stage 'reward (FunctionReward)', "
    )
    assert error.count("\n") == 1
    failure = json.loads((folder / "run" / "failure.json").read_text())
    assert (failure["exit_code"], failure["step"]) == (139, 2)
    assert "in crashes" in failure["traceback"]


@pytest.mark.slow
def test_an_output_that_cannot_be_written_is_told(folder):
    with open("/dev/full", "w") as full, rlcomp(folder, *reward("fine"), stdout=full) as process:
        _, error = process.communicate(timeout=300)

    assert process.returncode == 74
    assert error.startswith("rlcomp: [Errno 28] No space left on device, ")


@pytest.mark.slow
@pytest.mark.parametrize("send", [os.kill, os.killpg])  # to the command, or as a terminal does
def test_the_first_signal_is_answered_at_once_and_the_run_saved(folder, send):
    with rlcomp(folder, *reward("waits"), stdout=subprocess.DEVNULL) as process:
        deadline = time.monotonic() + 300
        while not (folder / "run" / "waiting").exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        send(process.pid, signal.SIGINT)
        start = time.monotonic()
        assert process.stderr.readline() == "\n"
        answer = process.stderr.readline()
        took = time.monotonic() - start
        rest = process.stderr.read()

    assert answer == (
        "rlcomp: stopping at the end of this step; still in stage 'reward (FunctionReward)', "
        "phase 'rl', step 2 of 3; a second signal stops at once\n"
    )
    assert took < 2.5  # the reward takes 3 seconds
    assert process.returncode == 75
    assert rest.startswith("rlcomp: stopped in phase rl after step 2, saved; go on with: rlcomp ")
    assert not (folder / "run" / "failure.json").exists()
