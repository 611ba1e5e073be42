"""Whole runs by the command line on two ranks: their numbers, their ends, what they leave."""

import json
import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest

from rlcomp.checkpoint.reader import list_checkpoints
from rlcomp.cli.run import main
from rlcomp.errors import ProcessEnded, UserError
from rlcomp.run.launch import resume_command

SMALL = (
    "prompts.batch_size=8",
    "phases.warm_start.steps=3",
    "phases.rl.steps=3",
    "phases.rl.every.evaluation=null",
    "phases.warm_start.every.evaluation=null",
    # AdamW makes whole steps of the rounding of gradients that are all but 0.
    "optimizer@learner.optimizer=sgd",
    "optimizer@sft_learner.optimizer=sgd",
)


def run(*words, apart=False):
    """``rlcomp`` in this process, which says nothing."""
    sys.argv = ["rlcomp", *words]
    with open(os.devnull, "w") as nowhere:
        sys.stdout = sys.stderr = nowhere
        main(apart=apart)


def metrics(directory):
    lines = [json.loads(line) for line in (directory / "metrics.jsonl").read_text().splitlines()]
    return [{k: v for k, v in line.items() if not k.startswith("time/")} for line in lines]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "parallel", "steps"),
    [
        (["recipe=grpo", "group_size=4"], "replicate", 6),
        (
            [
                *("recipe=ppo", "phases.value_warm_up.steps=2"),
                *("value=critic", "optimizer@value_learner.optimizer=sgd"),
                # Without rewards that differ whitened advantages are rounding alone.
                *("reward=share_in_place",),
            ],
            "shard",
            8,
        ),
    ],
)
def test_a_run_on_two_ranks_has_the_metrics_of_one_process(
    tmp_path, of_all, words, parallel, steps
):
    words = [*words, *SMALL]
    of_all(1, partial(run, *words, f"directory={tmp_path / 'one'}"), alarm=120)
    of_all(
        2, partial(run, *words, f"directory={tmp_path / 'two'}", f"parallel={parallel}"), alarm=240
    )

    one, two = metrics(tmp_path / "one"), metrics(tmp_path / "two")
    assert len(one) == steps
    assert {key for line in one for key in line} == {key for line in two for key in line}
    for ours, theirs in zip(two, one, strict=True):
        assert ours.pop("phase") == theirs.pop("phase")
        assert ours == pytest.approx(theirs, rel=1e-4, abs=1e-6)
    # Beside where a rank would be told to hang.
    left = {p.name for p in tmp_path.iterdir() if not p.name.startswith("stack-")}
    assert left == {"one", "two"}


def left_alone(process, seconds):
    process.join(seconds)
    return process.exitcode


def wait_for(what, seconds=60):
    until = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < until, "it never came"
        time.sleep(0.1)


LONG = (
    *SMALL[:1],
    "recipe=grpo",
    "group_size=2",
    "phases.warm_start.steps=2",
    "phases.rl.steps=100000",
    "phases.rl.every.evaluation=null",
    "phases.warm_start.every.evaluation=null",
)


def begun(directory):
    return lambda: (directory / "metrics.jsonl").exists() and len(metrics(directory)) > 3


@pytest.mark.slow
def test_sigterm_to_rank_0_saves_and_ends_both(tmp_path, start_ranks):
    words = (*LONG, f"directory={tmp_path}/run", "parallel=shard")
    first, second = start_ranks(2, partial(run, *words, apart=True))
    wait_for(begun(tmp_path / "run"))

    os.kill(first.pid, signal.SIGTERM)

    assert left_alone(first, 30) is not None
    assert left_alone(second, 30) is not None
    assert list_checkpoints(tmp_path / "run" / "checkpoints")
    assert not (tmp_path / "run" / "failure.json").exists()
    steps = len(metrics(tmp_path / "run"))
    start_ranks(1, partial(run, *words[:-1]))  # goes on by itself
    wait_for(lambda: len(metrics(tmp_path / "run")) > steps)


@pytest.mark.slow
def test_rank_1_answers_no_signal_and_ends_when_rank_0_is_killed(tmp_path, start_ranks):
    words = (*LONG, f"directory={tmp_path}/run", "parallel=replicate")
    first, second = start_ranks(2, partial(run, *words, apart=True))
    wait_for(begun(tmp_path / "run"))
    os.kill(second.pid, signal.SIGTERM)
    steps = len(metrics(tmp_path / "run"))
    wait_for(lambda: len(metrics(tmp_path / "run")) > steps + 1)

    os.kill(first.pid, signal.SIGKILL)  # its own process dies with it

    assert left_alone(second, 30) is not None


def in_session(session):
    """The processes of a session that still are."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[3]) == session and fields[0] != "Z":
            found.append(int(stat.parent.name))
    return found


@pytest.mark.slow
def test_torchrun_that_is_stopped_leaves_no_process(tmp_path):
    words = (*LONG, f"directory={tmp_path}/run", "parallel=replicate")
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node"]
    process = subprocess.Popen(
        [*torchrun, "2", "-m", "rlcomp", *words],
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_for(begun(tmp_path / "run"), 120)
        process.send_signal(signal.SIGTERM)
        process.wait(60)
        wait_for(lambda: not in_session(process.pid), 20)
    finally:
        for left in in_session(process.pid):
            os.kill(left, signal.SIGKILL)

    assert list_checkpoints(tmp_path / "run" / "checkpoints")


def test_several_processes_without_a_word_are_refused(ranks_of, tmp_path):
    def tell():
        with pytest.raises(SystemExit) as left:
            run("recipe=grpo", f"directory={tmp_path}/run")
        return left.value.code

    assert [one.value for one in ranks_of(2, tell)] == [UserError.exit_code] * 2


def test_a_sweep_on_several_ranks_is_refused(ranks_of, tmp_path):
    def tell():
        with pytest.raises(SystemExit) as left:
            run("-m", "recipe=grpo", "seed=0,1", "parallel=replicate", f"directory={tmp_path}/run")
        return left.value.code

    assert [one.value for one in ranks_of(2, tell)] == [UserError.exit_code] * 2
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("size", "program"), [("1", "rlcomp"), ("4", "torchrun --nproc-per-node 4 -m rlcomp")]
)
def test_a_run_is_continued_by_what_started_it(monkeypatch, size, program):
    monkeypatch.setenv("WORLD_SIZE", size)
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setattr("sys.argv", ["rlcomp", "parallel=shard", "directory=runs/old"])

    told = resume_command(Path("runs/a"))

    assert told == f"{program} parallel=shard directory=runs/a resume=auto"


def test_a_rank_that_lost_rank_0_fails():
    assert ProcessEnded.exit_code != 0
