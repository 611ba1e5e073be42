"""Rewards that run code, by that of whole programs: parts, weights, the linter, what is refused."""

import copy
import pickle

import pytest
from tensordict import TensorDict

from components.reward.code_io import CodeStdio
from components.reward.composite import WeightedSum
from rlcomp.batch import encode_columns, encode_texts
from rlcomp.errors import ConfigError, RlcompError
from rlcomp.metrics import recording
from rlcomp.sandbox import tier
from rlcomp.sandbox.sandbox import Sandbox

DOUBLE = [{"input": "2", "output": "4"}, {"input": "3", "output": "6"}]
RIGHT = "print(2 * int(input()))"
WRONG = "print(int(input()) ** 2)"  # of 2 it is right


def rows(*responses):
    columns = [{"input_output": DOUBLE}] * len(responses)
    texts = {key: encode_texts([""] * len(responses)) for key in ("prompt", "answer")}
    entries = {
        **texts,
        "response": encode_texts(list(responses)),
        "columns": encode_columns(columns),
    }
    return TensorDict(entries, batch_size=[len(responses)])


def scored(reward, response, pairs=DOUBLE):
    row = {"prompt": "", "response": response, "answer": "", "input_output": pairs}
    return reward.score_row(row)


@pytest.fixture
def reward(sandbox):
    """``reward(**arguments)``: of whole responses, patient on a busy machine."""
    return lambda **given: CodeStdio(
        **{"sandbox": sandbox, "where": "whole", "timeout": 30.0, **given}
    )


def test_the_parts_of_right_wrong_and_broken_programs(reward):
    own = reward(memory_mib=256, measure=True)

    right, wrong, broken = (scored(own, text) for text in (RIGHT, WRONG, "print("))

    assert (right["passed"], right["passed_share"], right["compiles"]) == (1.0, 1.0, 1.0)
    assert 0 < right["run_time"] < 30
    assert 5 < right["peak_memory"] < 100
    limits = {"run_time": 30.0, "peak_memory": 256.0}
    assert wrong == {"passed": 0.0, "passed_share": 0.5, "compiles": 1.0, **limits}
    assert broken == {"passed": 0.0, "passed_share": 0.0, "compiles": 0.0, **limits}


def test_a_response_without_a_program_fails_and_its_row_is_valid(sandbox):
    batch = CodeStdio(sandbox=sandbox, timeout=30.0, measure=True)(
        rows(RIGHT, f"```\n{RIGHT}\n```")
    )

    assert batch["reward"].tolist() == [0.0, 1.0]
    assert batch["reward_valid"].tolist() == [True, True]
    assert batch["rewards", "compiles"].tolist() == [0.0, 1.0]
    assert batch["rewards", "run_time"][0] == 30.0


def test_time_and_memory_are_those_of_the_worst_run(reward):
    idle = scored(reward(measure=True), RIGHT)["peak_memory"]
    slow = "import time\nn = int(input())\nif n == 2: time.sleep(.4)"
    large = "else: x = bytearray(100 << 20)"

    parts = scored(reward(measure=True), f"{slow}\n{large}\nprint(2 * n)")

    assert 0.35 <= parts["run_time"] < 30
    assert 100 < parts["peak_memory"] < 100 + 1.8 * idle


@pytest.mark.parametrize(
    "source",
    [
        "while True: pass",
        "import os; os.abort()",
        "x = bytearray(1 << 40)",
        "import sys; sys.exit(1)",
    ],
)
def test_the_row_of_every_program_is_valid(reward, source):
    batch = reward(timeout=0.5)(rows(f"print(2 * int(input()), flush=True)\n{source}"))

    assert batch["reward_valid"].tolist() == [True]
    assert batch["reward"].tolist() == [0.0]


def test_weights_of_parts_and_only_passing_is_correct(reward):
    weights = {"passed_share": 0.5, "compiles": 0.25, "run_time": -1 / 64}
    own = reward(weights=weights, measure=True, timeout=32.0)

    batch = own(rows(WRONG, "print(", RIGHT))

    # The limit of 32 s is what a failed program pays.
    assert batch["reward"].tolist()[:2] == [0.25 + 0.25 - 0.5, -0.5]
    assert 0.25 < batch["reward"][2] < 0.75
    assert batch["correct"].tolist() == [False, False, True]


def test_each_distinct_program_runs_once_a_batch_and_the_tier_is_recorded(reward):
    with recording() as ledger:
        reward()(rows(RIGHT, WRONG, RIGHT, RIGHT))

    means = ledger.means()
    assert means["sandbox/jobs"] == 4  # two programs with two inputs each
    assert means["sandbox/strict"] == 1
    assert len([name for name in means if name.startswith("sandbox/")]) == 2
    assert means["reward/passed"] == 0.75
    assert means["reward/passed_share"] == 0.875


@pytest.mark.parametrize("tier", ["bwrap", "portable"])
def test_a_weaker_tier_is_recorded_by_name(tier, sandbox):
    weaker = Sandbox(workers=1, min_tier="portable")
    weaker.tier = tier
    with recording() as ledger:
        CodeStdio(sandbox=weaker)(rows(""))

    told = {name: value for name, value in ledger.means().items() if name.startswith("sandbox/")}
    assert told == {"sandbox/strict": 0, f"sandbox/{tier}": 1, "sandbox/jobs": 0}


def test_the_sandbox_metrics_of_a_part_of_a_sum_are_recorded(reward):
    with recording() as ledger:
        WeightedSum(parts={"code": reward()}, weights={"code": 1.0})(rows(RIGHT))

    assert ledger.means()["sandbox/strict"] == 1


def test_the_linter_judges_programs_that_pass(reward):
    own = reward(lint=["F"], weights={"passed": 1.0, "linter": 0.5})

    batch = own(rows(RIGHT, f"import os\n{RIGHT}", WRONG, f"import os\n{WRONG}"))

    assert batch["rewards", "linter"].tolist() == [1.0, 0.0, 0.0, 0.0]
    assert batch["reward"].tolist() == [1.5, 1.0, 0.0, 0.0]


def test_measurements_and_the_linter_are_parts_only_on_request(reward):
    three = {"passed": 1.0, "passed_share": 1.0, "compiles": 1.0}
    assert scored(reward(), RIGHT) == three
    assert scored(reward(weights={"passed": 1.0, "linter": 0.0}), RIGHT) == three


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"weights": {"pased": 1.0}}, "CodeStdio: weights names 'pased'; did you mean 'passed'"),
        ({"weights": {"linter": 0.5}}, r"weights.linter is 0.5, .* set lint=\[E,F\]"),
        ({"weights": {"run_time": -1}}, "weights.run_time is -1, .* set measure=true"),
        ({"weights": {"peak_memory": 1}, "lint": ["E"]}, "weights.peak_memory .* measure=true"),
        ({"lint": ["QQ"]}, "lint is .*ruff refuses"),
        ({"timeout": 0.0}, "CodeStdio: timeout is 0.0: must be greater than 0"),
        ({"memory_mib": 9}, "limits.memory=9437184: must be at least"),
    ],
)
def test_impossible_weights_are_refused(reward, given, told):
    with pytest.raises(ConfigError, match=told):
        reward(**given)


def test_a_weaker_tier_than_required_is_refused_in_the_constructor(monkeypatch):
    monkeypatch.setattr(tier, "find_missing", lambda asked: f"no walls of tier {asked}")

    with pytest.raises(ConfigError, match=r"sandbox\.min_tier=strict: there is no sandbox here"):
        CodeStdio(sandbox=Sandbox())


def test_a_failure_of_the_machine_stops_the_run(sandbox):
    lost = Sandbox(workers=1)
    own = CodeStdio(sandbox=lost, where="whole")
    lost._owner = -1

    with pytest.raises(RlcompError, match="this sandbox belongs to another process"):
        own(rows(RIGHT))


def test_the_error_of_a_bad_column_names_its_row(reward):
    with pytest.raises(RlcompError, match="needs the column 'input_output'") as told:
        reward().score_rows([{"prompt": "p", "response": "r", "answer": ""}], [7])

    assert "row 7" in "".join(told.value.__notes__)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda each: pickle.loads(pickle.dumps(each))])
def test_a_copy_has_a_sandbox_of_its_own(reward, copied):
    own = reward()
    other = copied(own)

    with other.sandbox:
        assert scored(other, RIGHT)["passed"] == 1.0
    assert other.sandbox is not own.sandbox
    assert scored(own, RIGHT)["passed"] == 1.0
