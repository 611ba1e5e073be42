"""Functions, expressions and programs by pairs of input and output."""

import pytest

from components.reward.code_io import CodeCalls, CodeStdio
from rlcomp.errors import ConfigError, DataError

# Of x * x - 8.
INPUTS, OUTPUTS = [[0], [1], [3]], [-8, -7, 1]
EXPRESSION = {"entry_point": None, "names": ["x"], "where": "whole"}


@pytest.fixture
def parts(sandbox):
    """``parts(source, given, **columns)``: of a reward with these arguments."""

    def run(source, given, **columns):
        reward = CodeCalls(sandbox=sandbox, timeout=30.0, **given)
        row = {"prompt": "", "response": source, "answer": "", **columns}
        return reward.score_row(row)

    return run


@pytest.mark.parametrize(
    ("source", "share"),
    [
        ("x*x-8", 1),
        (" (x-3)*(x+3)+1\n", 1),
        ("x-8", 2 / 3),  # -8, -7, -5
        ("1", 1 / 3),
        ("8/x", 0),  # -> an error, 8, 8/3
        ("-8 if x == 0 else 8/0", 1 / 3),
        ("x=5", 0),
        ("y*y-8", 0),
        ("", 0),
    ],
)
def test_an_expression_is_evaluated_at_every_input(parts, source, share):
    result = parts(source, EXPRESSION, inputs=INPUTS, outputs=OUTPUTS)

    assert result["passed_share"] == pytest.approx(share)
    assert result["passed"] == float(share == 1)
    assert result["compiles"] == float(source not in ("x=5", ""))


def test_a_function_is_called_by_the_name_in_its_column(parts):
    source = "def f(a, b):\n    return a + b\n\ndef g(a, b):\n    return (a, b)"
    block = f"```python\n{source}\n```"
    pairs = {"inputs": [[1, 2], [0.1, 0.2]], "outputs": [3, 0.3]}

    assert parts(block, {}, **pairs, entry_point="f")["passed"] == 1.0
    assert parts(block, {}, **pairs, entry_point="g")["passed_share"] == 0.0
    assert parts(block, {"absolute": 0, "relative": 0}, **pairs, entry_point="f")["passed"] == 0.0
    near = {**pairs, "outputs": [3.1, 0.31], "entry_point": "f"}
    assert parts(block, {"relative": 0.04}, **near)["passed"] == 1.0
    assert parts(block, {"absolute": 0.05}, **near)["passed_share"] == 0.5


def test_calls_that_were_not_reached_are_wrong(parts):
    source = "```\nimport os\ndef f(a):\n    if a: os._exit(0)\n    return 1\n```"

    result = parts(source, {}, inputs=[[0], [0], [1], [0]], outputs=[1, 1, 1, 1], entry_point="f")

    assert (result["passed"], result["passed_share"]) == (0.0, 0.5)


def test_right_values_of_a_program_that_ends_badly_do_not_pass(parts):
    source = "```\nimport atexit, os\natexit.register(os._exit, 3)\ndef f(a): return 1\n```"

    result = parts(source, {}, inputs=[[0]], outputs=[1], entry_point="f")

    assert (result["passed"], result["passed_share"]) == (0.0, 1.0)


def test_all_inputs_go_into_one_job_and_no_expected_value(sandbox):
    reward = CodeCalls(sandbox=sandbox, timeout=2.0, **EXPRESSION)
    tests = reward.tests_of({"inputs": [[1], [2]], "outputs": [4711, 4712]})

    (job,) = reward.jobs("x", tests)

    assert (len(job.inputs), job.names, job.limits.wall) == (2, ("x",), 2.0)
    assert "471" not in repr(job)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"inputs": [1, 2], "outputs": [1, 2]}, "'inputs' is .* the arguments of each call"),
        ({"inputs": "ab", "outputs": [1, 2]}, "'inputs' is .* the arguments of each call"),
        ({"inputs": [[1], [2]], "outputs": [1]}, r"'outputs' is \[1\]: .* of the 2 calls"),
        ({"inputs": [[1]], "outputs": {"a": 1}}, "'outputs' is .* of the 1 calls"),
        ({"inputs": [], "outputs": []}, "'outputs' is .*at least one"),
        ({"inputs": [[1]]}, "needs the column 'outputs'"),
        ({"outputs": [1]}, "needs the column 'inputs'"),
    ],
)
def test_malformed_columns_of_pairs_are_refused(parts, columns, message):
    with pytest.raises(DataError, match=message):
        parts("x", EXPRESSION, **columns)


@pytest.mark.parametrize(
    "given", [{"names": ["x"]}, {"entry_point": None}, {"entry_point": None, "names": []}]
)
def test_it_is_a_function_or_an_expression(sandbox, given):
    with pytest.raises(ConfigError, match="set one of them"):
        CodeCalls(sandbox=sandbox, **given)


def test_the_columns_that_it_needs(sandbox):
    assert CodeCalls(sandbox=sandbox).needed_columns == {"inputs", "outputs", "entry_point"}
    own = CodeCalls(sandbox=sandbox, inputs="a", outputs="b", **EXPRESSION)
    assert own.needed_columns == {"a", "b"}


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


def test_pairs_may_be_listed_one_by_one(passed):
    pairs = [{"input": "1 2", "output": "0.5"}, {"input": "1 4", "output": "0.26"}]

    assert passed(DIVIDES, pairs) == (0.0, 0.5)


def test_the_output_of_a_failed_program_does_not_count(passed):
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
def test_a_malformed_column_of_pairs_is_refused(passed, value):
    with pytest.raises(DataError, match=r"the column 'input_output' is .*: must be a list of"):
        passed("", value)


def test_the_columns_may_be_called_otherwise(sandbox):
    assert CodeStdio(sandbox=sandbox, pairs="mine").needed_columns == {"mine"}
    assert CodeStdio(sandbox=sandbox).needed_columns == {"input_output"}
