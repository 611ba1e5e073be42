import math

import pytest

from components.environment.answer_verification import SecondAttempt
from components.reward.answer import ExactMatch
from components.worlds.stack_language.reward import StackProgram
from rlcomp.arguments import Unbuilt
from rlcomp.errors import ConfigError, DataError
from rlcomp.interfaces.environment import Environment, Turn
from rlcomp.interfaces.task import Example


def begun(verifier=None, example=None, **settings):
    world = SecondAttempt(verifier=verifier or ExactMatch(), **settings)
    assert world.reset(example or Example("2+2=", "4", ""), seed=0) == Turn()
    return world


# r1, alpha (r2 - r1) with alpha = 3, and what became of the first attempt.
CASES = [
    ("4", "4", 1.0, 0.0, "stayed_right"),
    ("5", "4", 0.0, 3.0, "helped"),
    ("4", "5", 1.0, -3.0, "hurt"),
    ("5", "6", 0.0, 0.0, "stayed_wrong"),
]


@pytest.mark.parametrize(("first", "second", "paid", "bonus", "became"), CASES)
def test_the_second_attempt_is_paid_for_what_it_improves(first, second, paid, bonus, became):
    world = begun(improvement=3.0)
    message = "Right." if first == "4" else "Wrong."

    assert isinstance(world, Environment)
    assert world.step(first) == Turn(observation=message, closing="\n", reward=paid)
    assert world.step(second) == Turn(reward=bonus, done=True)
    facts = world.facts()
    names = ["helped", "hurt", "stayed_right", "stayed_wrong"]
    assert {name: facts[name] for name in names} == {name: name == became for name in names}
    assert facts["first_right"] == (first == "4")
    assert facts["second_right"] == (second == "4")
    assert facts["changed"] == (first != second)
    world.close()


def test_an_episode_of_one_attempt_tells_of_no_reflection():
    world = begun()
    world.step("5")

    assert world.facts() == {}


@pytest.mark.parametrize("first", ["4", "5"])
def test_without_a_verdict_the_message_is_the_same_for_both(first):
    told = begun(tells="nothing", again="Look again.").step(first)

    assert told == Turn(observation="Look again.", closing="\n", reward=float(first == "4"))


def test_the_text_that_ends_an_attempt_is_no_part_of_the_first_one():
    world = begun(stop=";", right="+", wrong="-", closing="|")

    assert world.stops == (";",)
    assert world.step("4;").observation == "+"
    # The reward judges the last turn as it is: so does the environment.
    assert world.step("4;").reward == -1.0


def test_the_verifier_is_given_the_columns_and_may_be_described():
    described = Unbuilt("components.worlds.stack_language.reward.StackProgram", {})
    example = Example("t=", "tkkkk", "", columns={"stack": "3", "wanted": "5"})

    assert begun(described, example).step("ii").reward == 1.0
    assert begun(StackProgram(), example).step("i").reward == 0.0


class Unsure(ExactMatch):
    def score(self, prompt, response, answer):
        return {"": None, "nan": math.nan}.get(response, {"a": 1.0})


@pytest.mark.parametrize("response", ["", "nan", "parts"])
def test_what_cannot_be_judged_is_never_wrong(response):
    with pytest.raises(DataError, match="must be a number"):
        begun(Unsure()).step(response)


class Pooled(ExactMatch):
    def forward(self, batch):
        return batch


@pytest.mark.parametrize(
    "verifier",
    [Unbuilt("components.reward.composite.ShuffledReward", {"reward": ExactMatch()}), Pooled()],
    ids=["shuffled", "pooled"],
)
def test_a_reward_of_whole_batches_is_refused(verifier):
    with pytest.raises(ConfigError, match="scores single texts"):
        SecondAttempt(verifier=verifier)
