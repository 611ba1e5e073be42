import pytest

from components.worlds.stack_language.tool import StackInterpreter
from rlcomp.errors import DataError
from rlcomp.interfaces.task import Example
from rlcomp.interfaces.tool import KnowsExample, ToolError


def begun(**settings):
    tool = StackInterpreter(**settings)
    tool.begin(Example("t=", "", "", columns={"stack": "47"}))
    return tool


def test_a_program_runs_on_the_parse_stack_the_example_at_every_call():
    tool = begun()

    assert isinstance(tool, KnowsExample)
    assert [tool("i"), tool("sa"), tool("i"), tool("pp")] == ["48", "1", "48", ""]


@pytest.mark.parametrize(
    ("program", "why"),
    [("x", "no command x"), ("kkkk", "more than 3 steps"), ("do", "more than 3 digits")],
)
def test_what_cannot_be_run_is_told(program, why):
    with pytest.raises(ToolError, match=why):
        begun(max_steps=3, max_depth=3)(program)


def test_the_control_shows_no_result():
    tool = begun(shows="nothing")

    assert [tool("i"), tool("x")] == ["", ""]


@pytest.mark.parametrize("columns", [{}, {"stack": 47}, {"stack": "4x"}])
def test_an_example_without_digits_is_refused(columns):
    with pytest.raises(DataError, match=r"stack|digits"):
        StackInterpreter().begin(Example("t=", "", "", columns=columns))
