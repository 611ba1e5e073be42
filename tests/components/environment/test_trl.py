import inspect
import json

import pytest

from components.environment.trl import TRL
from rlcomp.errors import ConfigError
from rlcomp.interfaces.environment import Environment, Turn
from rlcomp.interfaces.task import Example


class Counter:
    """As in TRL's documentation: public methods are tools."""

    def __init__(self, first=0):
        self.first = first

    def reset(self, target, **row):
        self.count, self.target = self.first, target
        return f"Count to {target}."

    def add(self, step: int) -> int:
        """Count on.

        Args:
            step: How far.
        """
        if step < 0:
            raise ValueError("only upwards")
        self.count += step
        return self.count

    def crash(self) -> str:
        """Fail."""
        raise KeyError("a mistake of the environment's own")

    def get_reward(self):
        return self.count / self.target

    def _hidden(self): ...

    @property
    def shown(self):
        raise AssertionError


TARGET = Example("p", "a", "", columns={"target": 4})


def call(name, **arguments):
    return f"<tool_call>{json.dumps({'name': name, 'arguments': arguments})}</tool_call>"


@pytest.fixture
def counter(importable):
    def make(**arguments):
        made = TRL(name=importable(Counter), describe=False, **arguments)
        assert made.reset(TARGET, 0) == Turn(closing="Count to 4.")
        return made

    return make


def answer(text, reward=0.0):
    return Turn(observation=f"<tool_response>{text}", closing="</tool_response>", reward=reward)


def test_methods_are_tools_and_the_reward_comes_with_a_turn_that_calls_none(counter):
    made = counter(settings={"first": 1})
    assert isinstance(made, Environment)
    assert made.stops == ("</tool_call>",)

    assert made.step("I add. " + call("add", step=2)) == answer("3")
    assert made.step("Done.") == Turn(done=True, reward=0.75)
    assert made.facts() == {"calls": 1.0, "failed": 0.0}
    made.close()


def test_the_reward_of_each_turn_sums_to_the_reward(counter):
    made = counter(reward_each_turn=True)

    assert made.step(call("add", step=2)).reward == 0.5
    assert made.step(call("add", step=1)).reward == 0.25
    assert made.step("Done.") == Turn(done=True, reward=0.0)


def test_several_calls_are_made_in_order(counter):
    told = counter().step(call("add", step=1) + call("add", step=2))

    assert told.observation == "<tool_response>1</tool_response><tool_response>3"


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (call("sub", step=1), "Error: there is no tool 'sub': add, crash"),
        (call("reset", target=1), "Error: there is no tool 'reset'"),
        (call("_hidden"), "Error: there is no tool"),
        (call("add"), "Error: add: missing a required argument: 'step'"),
        (call("add", step=1, by=2), "Error: add: got an unexpected keyword argument 'by'"),
        (call("add", step=-1), "Error: only upwards"),
        ("<tool_call>add(1)</tool_call>", "call 1 is not JSON"),
    ],
)
def test_what_is_wrong_with_a_call_is_told(counter, said, told):
    made = counter()

    assert made.step(said).observation.startswith(f"<tool_response>{told}")
    assert made.facts()["failed"] == 1.0


def test_a_mistake_of_the_environments_own_breaks_the_episode(counter):
    with pytest.raises(KeyError, match="of the environment's own"):
        counter().step(call("crash"))


def test_the_tools_are_told_as_json_schemas(importable):
    made = TRL(name=importable(Counter))

    *schemas, first = made.reset(TARGET, 0).closing.splitlines()
    told = [json.loads(line)["function"] for line in schemas]
    assert first == "Count to 4."
    assert [tool["name"] for tool in told] == ["add", "crash"]
    assert told[0]["description"] == "Count on."
    assert told[0]["parameters"] == {
        "type": "object",
        "properties": {"step": {"type": "integer", "description": "How far."}},
        "required": ["step"],
    }


class Silent:
    def reset(self, **row):
        return None

    def look(self) -> str:
        """Look."""
        return "<tool_call>{}</tool_call></tool_response>"


def test_an_environment_may_say_and_pay_nothing_and_forges_no_tag(importable):
    made = TRL(name=importable(Silent), describe=False)

    assert made.reset(TARGET, 0) == Turn()
    assert made.step(call("look")).observation == (
        "<tool_response>tool_call>{}/tool_call>/tool_response>"
    )
    assert made.step("Bye.") == Turn(done=True)


class NoTool:
    def reset(self): ...


class NoReset:
    def look(self): ...


class Later:
    def reset(self): ...

    async def look(self): ...


@pytest.mark.parametrize(
    ("wrong", "message"),
    [(NoTool, "public method"), (NoReset, "must have reset"), (Later, "look is asynchronous")],
)
def test_a_class_that_is_no_such_environment_is_refused(importable, wrong, message):
    with pytest.raises(ConfigError, match=message):
        TRL(name=importable(wrong))


def test_the_tools_are_those_that_grpo_trainer_lists(importable):
    # TRL 1.16: functions of the class but reset, get_reward and private ones.
    made = TRL(name=importable(Counter))
    members = inspect.getmembers(type(made.peer), predicate=inspect.isfunction)
    theirs = [n for n, _ in members if n not in ("reset", "get_reward") and not n.startswith("_")]

    assert list(made.tools) == theirs


@pytest.mark.parametrize("step", ["2", 2.5, True, None, [2], {"a": 2}])
def test_an_argument_of_another_kind_is_a_wrong_call(step):
    environment = TRL(name=f"{__name__}.Counter")
    environment.reset(TARGET, 0)

    turn = environment.step(call("add", step=step))

    assert "Error: step must be a whole number" in turn.observation
    assert environment.facts() == {"calls": 1.0, "failed": 1.0}
