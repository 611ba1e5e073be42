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


def test_questions_that_the_answer_needs_are_paid_once_and_in_their_order():
    tool = LookupTool(useful=0.6)
    # a -> b -> c -> a: a, b and c are needed, of which each is paid a third of .6.
    tool.reset(Example("a3=", "a", "", columns={"map": "bca", "hops": 3}), seed=0)
    asked = ["<b>", "<a>", "<a>", "<c>", "<z>", "<b>", "<c>", "<a>"]
    paid = [tool.step(question).reward for question in asked]

    assert paid == pytest.approx([0.0, 0.2, 0.0, 0.0, 0.0, 0.2, 0.2, 0.0])
    assert tool.step("a") == Turn(done=True)


def test_a_fork_is_paid_for_what_it_has_not_reached():
    tool = LookupTool(useful=1.0)
    tool.reset(Example("a2=", "c", "", columns={"map": "bca", "hops": 2}), seed=0)
    assert tool.step("<a>").reward == 0.5
    other = tool.fork()

    assert [each.step("<b>").reward for each in (tool, other)] == [0.5, 0.5]


def test_without_a_pay_no_column_of_hops_is_needed(tool):
    assert tool.step("<a>").reward == 0.0
