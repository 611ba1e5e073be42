"""A planted tool that is of no use: its calls are counted, and a bonus pays for what it says."""

from components.environment.tools import Tools
from components.reward.tools import ToolStar
from components.tool import Calculator
from components.worlds.planted_calls.task import FixedAnswer
from rlcomp.interfaces.task import Example


def played(says):
    made = Tools(tools={"calculator": Calculator, "idle": lambda: FixedAnswer(says=says)})
    made.reset(Example("1+1?", "2", ""), 0)
    told = [
        made.step(action).observation
        for action in ("<idle></idle>", "<calculator>1+1</calculator>", "<idle>why</idle>")
    ]
    made.step("<answer>2</answer>")
    return told, made.facts()


def test_it_answers_the_same_to_everything():
    assert played("no")[0] == ["<information>no", "<information>2", "<information>no"]
    assert played("")[0] == ["<information>", "<information>2", "<information>"]


def test_useless_calls_are_counted_by_tool():
    for says, useful, used in (("no", 3.0, 2.0), ("", 1.0, 1.0)):
        facts = played(says)[1]

        assert (facts["calls_idle"], facts["calls_calculator"], facts["calls"]) == (2.0, 1.0, 3.0)
        assert (facts["useful_calls"], facts["tools_used"]) == (useful, used)


def test_a_bonus_for_two_tools_pays_for_one_that_says_something_and_for_no_silent_one():
    for says, tools in (("no", 1.0), ("", 0.0)):
        row = {"response": "<answer>2</answer>", "answer": "2", "facts": played(says)[1]}

        assert ToolStar().score_row(row) == {"accuracy": 1.0, "form": 0.0, "tools": tools}
