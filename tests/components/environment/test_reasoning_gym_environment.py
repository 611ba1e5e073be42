import pytest

from components.environment.reasoning_gym import ReasoningGymEnvironment
from rlcomp.errors import ConfigError
from rlcomp.interfaces.environment import Environment, Turn
from rlcomp.interfaces.task import Example

# Of leg_counting with seed 1 the first answer of three is 292 (as in tests/test_contract.py).
PUZZLE = {"name": "leg_counting", "settings": {}, "seed": 1, "size": 3, "index": 0}
ASKED = Example("How many legs?", "292", "", columns={"reasoning_gym": PUZZLE})


def test_a_wrong_answer_may_be_mended():
    made = ReasoningGymEnvironment(attempts=3, remark="Again.")
    assert isinstance(made, Environment)

    assert made.reset(ASKED, 0) == Turn()
    assert made.step("291") == Turn(closing="Again.")
    assert made.step("292") == Turn(reward=1.0, done=True)
    assert made.facts() == {"attempts": 2.0, "solved": 1.0}
    made.close()


def test_the_last_attempt_ends_it():
    made = ReasoningGymEnvironment(stops=[">"])
    made.reset(ASKED, 0)

    assert made.step("291>") == Turn(done=True)
    assert made.facts()["solved"] == 0.0


def test_the_text_that_ends_a_turn_is_no_part_of_the_answer():
    made = ReasoningGymEnvironment(stops=[">"])
    made.reset(ASKED, 0)

    assert made.step("292>").reward == 1.0


def test_part_of_an_answer_pays_once():
    # reasoning-gym gives .75 to an answer of 4 characters that holds the right one of 3.
    made = ReasoningGymEnvironment(attempts=4, partial=True)
    made.reset(ASKED, 0)

    assert [made.step(said).reward for said in ("2920", "7", "2920", "292")] == [0.75, 0, 0, 0.25]


def test_part_of_an_answer_pays_nothing_unless_it_is_asked_for():
    made = ReasoningGymEnvironment()
    made.reset(ASKED, 0)

    assert made.step("2920").reward == 0.0


def test_it_asks_a_question_of_the_examples_seed_itself():
    made = ReasoningGymEnvironment(name="leg_counting")
    world = Example("", "", "", columns={"seed": 1})

    told = made.reset(world, 5)
    assert "292" not in told.observation
    assert told == ReasoningGymEnvironment(name="leg_counting").reset(world, 6)
    assert made.step("292").reward == 1.0  # the first puzzle of seed 1, however many there are


def test_which_puzzle_must_be_said():
    with pytest.raises(ConfigError, match=r"set environment\.name"):
        ReasoningGymEnvironment().reset(Example("", "", ""), 0)
    with pytest.raises(ConfigError, match="has no data set 'leg_count'"):
        ReasoningGymEnvironment(name="leg_count")
