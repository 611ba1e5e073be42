"""Functions by their unit tests: lists of asserts and sources that define ``check``."""

import ast
import gzip
import json
from pathlib import Path

import pytest
import yaml

from components.reward.code_tests import CodeTests
from rlcomp.errors import DataError

CONF = Path(__file__).resolve().parents[3] / "conf" / "reward"
HUMANEVAL = {"tests": "test", "entry_point": "entry_point", "setup": "prompt", "prefix": "prompt"}
ADDS = "```python\ndef add(a, b):\n    return a + b\n```"
TESTS = {"test_list": ["assert add(2, 3) == 5", "assert add(2, -2) == 1"], "test_imports": []}


@pytest.fixture
def parts(sandbox):
    """``parts(response, row, **arguments)``."""

    def run(response, row, **given):
        reward = CodeTests(sandbox=sandbox, timeout=30.0, **given)
        return reward.score_row({"prompt": "", "answer": "", **row, "response": response})

    return run


def test_each_of_a_list_of_tests_counts(parts):
    result = parts(ADDS, TESTS)

    assert (result["passed"], result["passed_share"], result["compiles"]) == (0.0, 0.5, 1.0)
    assert parts(ADDS, {**TESTS, "test_list": TESTS["test_list"][:1]})["passed"] == 1.0


def test_tests_that_were_not_reached_have_not_passed(parts):
    ends = "```\nimport os\ndef add(a, b):\n    if b < 0: os._exit(0)\n    return a + b\n```"
    tests = {**TESTS, "test_list": ["assert add(2, 3) == 5", "add(1, -1)", "assert add(0, 0) == 0"]}

    assert parts(ends, tests)["passed_share"] == pytest.approx(1 / 3)


def test_setup_is_no_test(parts):
    setup = {"test_imports": ["import math", "TWO = 2"]}
    tests = {"test_list": ["assert add(TWO, 3) == 6", "assert math.isclose(add(1, 1), 2)"]}

    assert parts(ADDS, {**setup, **tests})["passed_share"] == 0.5


PROMPT = 'def helper(x):\n    return 2 * x\n\ndef double(x):\n    """Twice x."""\n'
CHECK = "def check(candidate):\n    for n in range(3):\n        assert candidate(n) == helper(n)\n"


@pytest.mark.parametrize(
    ("response", "passed"),
    [
        ("    return helper(x)\n", 1.0),
        ("    return x + 1\n", 0.0),
        ("def double(x):\n    return x + x\n", 1.0),
        ("", 0.0),  # the stub alone
    ],
)
def test_a_response_may_continue_the_prompt(parts, response, passed):
    row = {"prompt": PROMPT, "test": CHECK, "entry_point": "double"}

    result = parts(response, row, **HUMANEVAL, where="whole")

    # The source that defines check, and check itself, are one test.
    assert (result["passed"], result["passed_share"]) == (passed, passed)


@pytest.mark.parametrize(
    ("tests", "imports", "name"),
    [
        (["assert f(1) == g(2)"], [], "f"),
        (["assert set(f([1])) == {1}"], [], "f"),
        (["assert math.isclose(f(1), 2)"], ["import math"], "f"),
        (["x = sqrt(f(1))\nassert x"], ["from math import sqrt"], "f"),
        (["assert root(f(1))"], ["from math import sqrt as root"], "f"),
        (["assert made(f(1))"], ["def made(x): return x"], "f"),
        (["assert made(f(1))"], ["made = lambda x: x"], "f"),
        (["assert f(1)"], ["def made(x):\n  def f(): return x\n  return f"], "f"),
        (["a = 1\nassert (\n  f(a)\n  == g(a))"], [], "f"),
        ("assert f(1)", [], "f"),
    ],
)
def test_the_function_is_the_first_that_the_tests_call(sandbox, tests, imports, name):
    row = {"test_list": tests, "test_imports": imports}

    assert CodeTests(sandbox=sandbox).tests_of(row).entry_point == name


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"test_list": []}, "'test_list' is .*: must be a text, or a list of at least 1"),
        ({"test_list": [5]}, "'test_list' is .*: must be a text, or a list of at least 1"),
        ({"test_list": {"a": "b"}}, "'test_list' is "),
        ({"test_imports": 5}, "'test_imports' is 5: .* at least 0"),
        ({"test_list": ["assert True"]}, "calls no function by its name: 'assert True'; set rew"),
        ({"test_list": ["assert f(1"]}, "holds a test that is no Python"),
        ({"test_imports": None}, "needs the column 'test_imports'"),
    ],
)
def test_malformed_columns_of_tests_are_refused(parts, columns, message):
    row = {name: value for name, value in {**TESTS, **columns}.items() if value is not None}

    with pytest.raises(DataError, match=message):
        parts(ADDS, row)


def test_the_columns_that_it_needs(sandbox):
    assert CodeTests(sandbox=sandbox).needed_columns == {"test_list", "test_imports"}
    assert CodeTests(sandbox=sandbox, setup=None).needed_columns == {"test_list"}
    assert CodeTests(sandbox=sandbox, **HUMANEVAL).needed_columns == {"test", "entry_point"}


def test_the_option_for_humaneval_has_its_columns():
    own = yaml.safe_load((CONF / "code_tests_humaneval.yaml").read_text())

    assert {name: own[name] for name in HUMANEVAL} == HUMANEVAL


def public(folder, name):
    with gzip.open(folder / "code" / f"{name}.jsonl.gz", "rt") as file:
        return [json.loads(line) for line in file]


def broken(source, name):
    """The source whose function of that name returns something else than it did."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name == name:
            for each in ast.walk(node):
                if isinstance(each, ast.Return):
                    each.value = ast.Tuple(
                        [ast.Constant("mutant"), each.value or ast.Constant(0)], ast.Load()
                    )
    return ast.unparse(tree)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("file", "given", "solution", "failing"),
    [
        ("humaneval", HUMANEVAL, lambda row: row["prompt"] + row["canonical_solution"], []),
        # Its test calls sys without an import: the solution, which is another program, has one.
        ("mbpp_sanitized", {}, lambda row: row["code"], [596]),
    ],
)
def test_reference_solutions_pass_and_mutants_fail(
    file, given, solution, failing, shared_data, sandbox
):
    reward = CodeTests(sandbox=sandbox, timeout=30, **given)
    rows = public(shared_data, file)
    names = [reward.tests_of({**row, "response": ""}).entry_point for row in rows]
    right = [{**row, "response": f"```python\n{solution(row)}\n```"} for row in rows]
    wrong = [
        {**row, "response": f"```python\n{broken(solution(row), name)}\n```"}
        for row, name in zip(rows, names, strict=True)
    ]

    scores = reward.score_rows([*right, *wrong], range(2 * len(rows)))

    passed = [parts["passed"] for parts in scores]
    lost = [row["task_id"] for row, ok in zip(rows, passed, strict=False) if not ok]
    assert lost == failing
    assert sum(passed[len(rows) :]) == 0
    assert len(rows) == {"humaneval": 67, "mbpp_sanitized": 179}[file]
