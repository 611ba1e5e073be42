"""A reward of one's own: the same run whatever makes its calls, and after a kill."""

import os
import shutil
import sys
from pathlib import Path

import pytest

from rlcomp.config.compose import compose_config
from rlcomp.config.resolve import plan_of
from rlcomp.errors import DataError, RlcompWarning
from rlcomp.run.launch import launch

TINY = [
    "reward=function",
    "reward.correct_by=right",
    "phases.warm_start.steps=2",
    "phases.rl.steps=3",
    "prompts.batch_size=4",
    "rollout.group_size=4",
    "evaluation.num_prompts=4",
    "demonstrations.batch_size=8",
    "checkpoint.keep=9",
    "phases.warm_start.every.checkpoint=1",
    "phases.rl.every.checkpoint=1",
    "phases.rl.every.evaluation=2",
    "model.hidden_size=16",
    "model.intermediate_size=16",
    "reward_check=count",
]
MODULE = """
import os

class Judge:
    def __init__(self, *, scale):
        self.scale = scale

    def __call__(self, response, answer, seed):
        if response.startswith(answer[:1]):
            raise ValueError("a mistake")
        return {"right": float(response == answer), "draw": self.scale * (seed % 1000)}

def refuses(response):
    if not response:
        return 0.0
    raise ValueError("no judge today")
"""
JUDGE = "reward.function={_target_: judge_of_this_test.Judge, scale: 0.001}"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("own")
    (made / "judge_of_this_test.py").write_text(MODULE)
    sys.path.insert(0, str(made))
    yield made
    sys.path.remove(str(made))


def workers():
    """Processes of the pool that this process has."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            if parent == os.getpid() and b"rlcomp.workers" in (folder / "cmdline").read_bytes():
                found.append(folder.name)
        except FileNotFoundError:
            continue
    return found


def play(directory, *overrides):
    config = compose_config([*TINY, *overrides, f"directory={directory}"])
    launch(config, plan_of(config))
    return directory


@pytest.fixture(scope="module")
def whole(folder):
    with pytest.warns(RlcompWarning, match="a mistake"):
        return play(folder / "whole", JUDGE, "reward_pool.num_workers=1")


@pytest.mark.slow
@pytest.mark.parametrize("calls", ["reward_pool.num_workers=3", "reward_pool=in_process"])
@pytest.mark.filterwarnings("ignore:reward 'function'")
def test_metrics_are_the_same_whatever_makes_the_calls(metrics, tmp_path, whole, calls):
    before = workers()
    found = metrics(play(tmp_path / "run", JUDGE, calls))

    assert found == metrics(whole)
    assert workers() == before
    assert any("reward/draw" in row for row in found)


@pytest.mark.slow
@pytest.mark.parametrize("step", [2, 4])
@pytest.mark.filterwarnings("ignore:reward 'function'")
def test_metrics_are_the_same_after_a_kill(bits, tmp_path, whole, step):
    directory = tmp_path / "run"
    shutil.copytree(whole, directory)

    play(directory, JUDGE, f"resume={directory}/checkpoints/step-{step:08d}")

    assert bits(directory) == bits(whole)


@pytest.mark.filterwarnings("ignore:reward 'function'")
def test_too_many_failures_stop_the_run_with_the_first_cause(tmp_path, folder):
    function = "reward.function=judge_of_this_test.refuses"

    before = workers()  # that of chat templates, which other tests may have begun
    with pytest.raises(DataError, match=r"rewards .* ValueError: no judge today") as told:
        play(tmp_path / "run", function, "reward.correct_by=null", "reward_check=limit")

    assert workers() == before
    assert "(judge_of_this_test.py, line" in str(told.value)
