import pytest

from components.worlds.lookup.environment import LookupTool
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
    assert tool.step("<a>") == Turn(observation="b|", anchor="a2= ab")
    assert tool.step("<b>") == Turn(observation="c|", anchor="a2= ab bc")
    assert tool.step("c") == Turn(done=True)
    assert tool.facts() == {"questions": 2.0}
    tool.close()


@pytest.mark.parametrize(
    ("action", "told"),
    [("<d>", "?|"), ("<>", "?|"), (">", "?|"), ("<a>b<c>", "a|"), ("x<b>", "c|")],
)
def test_the_last_question_counts_and_what_is_no_letter_of_the_map_is_not_known(tool, action, told):
    assert tool.step(action).observation == told


def test_states_are_what_is_known_of_the_map_in_whatever_order_it_was_told(tool):
    other = tool.fork()
    first, again, unknown, second = (
        tool.step(each).anchor for each in ("<a>", "<a>", "<z>", "<c>")
    )

    assert first == again == unknown == "a2= ab"
    assert second == "a2= ab ca"
    # The fork knows nothing of this; c is not known by what a is.
    assert other.step("<c>").anchor == "a2= ca"
    assert other.step("<a>").anchor == second
