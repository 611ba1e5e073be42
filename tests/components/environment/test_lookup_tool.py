import pytest

from components.environment.lookup import LookupTool
from rlcomp.interfaces.environment import Environment, Turn
from rlcomp.interfaces.task import Example


@pytest.fixture
def tool():
    made = LookupTool()
    start = made.reset(Example("a2=", "c", "", columns={"map": "bca"}), seed=0)
    assert start == Turn(anchor="a2=")
    return made


def test_it_is_an_environment_and_tells_what_the_map_makes_of_a_letter(tool):
    assert isinstance(tool, Environment)
    assert tool.step("<a>") == Turn(observation="b|", anchor="b")
    assert tool.step("<b>") == Turn(observation="c|", anchor="c")
    assert tool.step("c") == Turn(done=True)
    assert tool.facts() == {"questions": 2.0}
    tool.close()


@pytest.mark.parametrize(
    ("action", "told"),
    [("<d>", "?|"), ("<>", "?|"), (">", "?|"), ("<a>b<c>", "a|"), ("x<b>", "c|")],
)
def test_the_last_question_counts_and_what_is_no_letter_of_the_map_is_not_known(tool, action, told):
    assert tool.step(action).observation == told
