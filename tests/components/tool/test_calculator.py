import pytest

from components.tool import Calculator
from rlcomp.interfaces.tool import ToolError


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("7*8", "56"),
        (" (1+2)*-3 ", "-9"),
        ("0.1+0.2", "3/10"),
        ("7/2-1/2", "3"),
        ("1e3", "1000"),
        ("9" * 50 + "+1", "1" + "0" * 50),
    ],
)
def test_expressions_are_exact(query, told):
    assert Calculator()(query) == told


@pytest.mark.parametrize(
    "query",
    [
        "",
        "1+",
        "a",
        "2**9",
        "1;2",
        "'a'",
        "True",
        "1j",
        "__import__('os')",
        "[1]",
        "((" * 80,
        "1e999",
        "+1",
        "\x00",
        "1//2",
    ],
)
def test_what_is_no_expression_is_told(query):
    with pytest.raises(ToolError, match=r"no expression of numbers with \+ - \* / \( \)"):
        Calculator()(query)


def test_limits():
    with pytest.raises(ToolError, match="division by 0"):
        Calculator()("1/(1-1)")
    with pytest.raises(ToolError, match="more than 100 digits"):
        Calculator()("9" * 60 + "*" + "9" * 60)
    with pytest.raises(ToolError, match="more than 100 digits"):
        Calculator()("1e-200")
    with pytest.raises(ToolError, match="more than 200 characters"):
        Calculator()("1" * 201)
    assert Calculator()("9" * 100) == "9" * 100
    assert Calculator()("1+" * 99 + "10") == "109"  # 200 characters
