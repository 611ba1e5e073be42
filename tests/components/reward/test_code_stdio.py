"""Programs by their output: which pairs are right, and columns that are none."""

import pytest

from components.reward.code_io import CodeStdio
from rlcomp.errors import DataError

PAIRS = {"inputs": ["1 2\n", "5 6\n"], "outputs": ["0.5\n", "0.8333\n"]}
DIVIDES = "a, b = map(int, input().split())\nprint(a / b, '')\nprint()"


@pytest.fixture
def passed(sandbox):
    """``passed(source, pairs, **arguments)``: the verdict and the share."""

    def run(source, pairs, **given):
        reward = CodeStdio(sandbox=sandbox, where="whole", timeout=30.0, **given)
        row = {"prompt": "", "response": source, "answer": "", "input_output": pairs}
        parts = reward.score_row(row)
        return parts["passed"], parts["passed_share"]

    return run


def test_outputs_are_compared_within_the_tolerance(passed):
    assert passed(DIVIDES, PAIRS) == (0.0, 0.5)  # 0.8333333333333334
    assert passed(DIVIDES, PAIRS, absolute=1e-4) == (1.0, 1.0)
    assert passed(DIVIDES, PAIRS, relative=1e-5) == (0.0, 0.5)


def test_pairs_may_stand_one_by_one(passed):
    pairs = [{"input": "1 2", "output": "0.5"}, {"input": "1 4", "output": "0.26"}]

    assert passed(DIVIDES, pairs) == (0.0, 0.5)


def test_what_a_program_wrote_before_it_failed_does_not_count(passed):
    source = f"{DIVIDES}\nif a == 1: raise SystemExit(3)"

    assert passed(source, PAIRS, absolute=1e-4) == (0.0, 0.5)


def test_outputs_do_not_enter_the_sandbox(sandbox):
    reward = CodeStdio(sandbox=sandbox)

    jobs = reward.jobs("pass", [("1 2", "4711"), ("3 4", "4712")])

    assert [job.stdin for job in jobs] == ["1 2", "3 4"]
    assert "471" not in repr(jobs)


@pytest.mark.parametrize(
    "value",
    [
        "1 2",
        [],
        [["1", "2"]],
        [{"input": "1"}],
        [{"input": 1, "output": "1"}],
        {"inputs": ["1"]},
        {"inputs": "1", "outputs": "1"},
        {"inputs": ["1", "2"], "outputs": ["1"]},
        {"inputs": [], "outputs": []},
        {"inputs": [["1"]], "outputs": ["1"]},
    ],
)
def test_a_column_that_holds_no_pairs_is_told(passed, value):
    with pytest.raises(DataError, match=r"the column 'input_output' is .*: must be a list of"):
        passed("", value)


def test_the_columns_may_be_called_otherwise(sandbox):
    assert CodeStdio(sandbox=sandbox, pairs="mine").needed_columns == {"mine"}
    assert CodeStdio(sandbox=sandbox).needed_columns == {"input_output"}
