"""Programs in a response, and comparisons of their outputs."""

import pytest

from rlcomp.errors import ConfigError
from rlcomp.verify.code import check_rules, code_of, is_clean, same_output, same_value

BLOCK = "```python\nx = 1\n```"


@pytest.mark.parametrize(
    ("response", "code"),
    [
        (f"Thus:\n{BLOCK}\nDone.", "x = 1\n"),
        ("```\n  x = 1\n\n```", "  x = 1\n\n"),
        ("``` Py\nx = 1\n  ```  ", "x = 1\n"),
        (f"{BLOCK}\nOnce more:\n{BLOCK}", "x = 1\n"),  # the same one twice
        (f"```\nx = 2\n```</think>{BLOCK}", "x = 1\n"),
        (f"{BLOCK}\n```text\nx = 2\n```\n```bash\nls\n```", "x = 1\n"),
        (f"{BLOCK}\n```python\nx = 2\n```", None),  # two programs
        (f"{BLOCK}\n```python\nx = 1\n", None),
        ("x = 1", None),
        ("", None),
        (f"{BLOCK}</think>x = 1", None),
    ],
)
def test_the_program_is_the_one_block(response, code):
    assert code_of(response, "block") == code


def test_the_whole_response_keeps_its_white_space():
    assert code_of("x</think>    return 1\n", "whole") == "    return 1\n"


def test_a_program_may_be_long_but_not_too_long():
    assert code_of("1" * 100_000, "whole") is not None
    assert code_of("1" * 100_001, "whole") is None


@pytest.mark.parametrize(
    ("given", "expected", "tolerance", "same"),
    [
        ("1 2\n3\n", "1 2\n3", {}, True),
        ("\n 1\t2 \n3\n\n", "1  2\n3", {}, True),
        ("1\n2", "1 2", {}, False),
        ("1\n\n2", "1\n2", {}, False),  # an empty line inside counts
        ("1", "1\n2", {}, False),
        ("1\n2", "1", {}, False),
        ("1 2", "1", {}, False),
        ("1.0", "1", {}, False),
        ("1.0", "1", {"absolute": 1e-9}, True),
        ("-1.5e1", "-15", {"absolute": 1e-9}, True),
        (".5", "0.50", {"relative": 1e-9}, True),
        ("1.2", "1", {"absolute": 0.19}, False),
        ("102", "100", {"relative": 0.02}, True),
        ("103", "100", {"relative": 0.02}, False),
        ("nan", "1", {"absolute": 9.0}, False),
        ("inf", "1", {"relative": 1.0}, False),
        ("1_0", "10", {"absolute": 9.0}, False),
        ("1e999", "1e998", {"absolute": 9.0}, True),  # both are infinite
        ("0" * 101, "0", {"absolute": 9.0}, False),
        ("", "", {}, True),
    ],
)
def test_outputs_are_compared_by_lines_and_words(given, expected, tolerance, same):
    assert same_output(given, expected, **tolerance) is same


@pytest.mark.parametrize(
    ("given", "expected", "same"),
    [
        (7, 7, True),
        (7.0, 7, True),
        (7, 8, False),
        (0.3 + 1e-10, 0.3, True),
        (0.3 + 1e-6, 0.3, False),
        (True, 1, False),
        (1, True, False),
        (True, True, True),
        (None, None, True),
        (0, None, False),
        ("7", 7, False),
        (7, "7", False),
        ("a", "a", True),
        (b"a", "a", False),
        (float("nan"), 1.0, False),
        (10**400, 10**400, True),
        (10**400, 1.5, False),
        ((1, [2]), [1, [2]], True),
        ([1], [1, 2], False),
        ([2, 1], [1, 2], False),
        ({1, 2}, [1, 2], False),
        ("ab", ["a", "b"], False),
        ({"a": 1}, {"a": 1.0}, True),
        ({"a": 1}, {"b": 1}, False),
        ({"a": 1}, {"a": 2}, False),
        ({"a": 1, "b": 2}, {"a": 1}, False),
        ({1: 2}, {"1": 2}, True),
        ({1: 2, "1": 2}, {"1": 2}, False),
        ({True: 2}, {"True": 2}, False),
        ([("a", 1)], {"a": 1}, False),
        (1 + 0j, 1, False),
    ],
)
def test_values_are_those_of_json(given, expected, same):
    assert same_value(given, expected, absolute=1e-9) is same


def test_the_tolerances_hold_inside_containers():
    assert same_value([{"a": 102.0}], [{"a": 100}], relative=0.02)
    assert not same_value([{"a": 103.0}], [{"a": 100}], relative=0.02)


def test_a_linter_reads_programs_and_not_their_excuses(monkeypatch, tmp_path):
    (tmp_path / "ruff.toml").write_text('lint.ignore = ["F401"]')
    monkeypatch.chdir(tmp_path)

    assert is_clean("import os\nprint(os)\n", ["E", "F"])
    assert not is_clean("import os  # noqa: F401\n", ["E", "F"])
    assert not is_clean("# ruff: noqa\nimport os\n", ["F"])
    for comment in ("# isort: skip_file", "#ruff: isort: off", "# isort:off"):
        assert not is_clean(f"{comment}\nimport sys\nimport os\nprint(os, sys)\n", ["I"])
    assert is_clean("import os\n", ["E"])
    assert not is_clean("x =", ["E"])
    assert is_clean("x = '\ud800'", ["F"])


def test_rules_that_the_linter_does_not_know_are_refused():
    with pytest.raises(ConfigError, match=r"lint is \['QQ'\], which ruff refuses: .*QQ"):
        check_rules(["QQ"])
