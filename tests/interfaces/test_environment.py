import dataclasses

import pytest

from rlcomp.interfaces.environment import Environment, Turn
from rlcomp.interfaces.task import Example


class Guess:
    """Higher or lower: the gold answer is the number to be guessed."""

    stops = ("\n",)

    def reset(self, example, seed):
        self.target, self.guesses = int(example.answer), 0
        return Turn(observation="guess", anchor="start")

    def step(self, action):
        self.guesses += 1
        number = int(action.removesuffix("\n"))
        if number == self.target:
            return Turn(reward=1.0, done=True)
        return Turn(observation="higher" if number < self.target else "lower")

    def facts(self):
        return {"guesses": float(self.guesses)}

    def close(self): ...


def test_an_episode_is_played_through_the_interface():
    game: Environment = Guess()
    turns = [game.reset(Example("?", "7", "7"), seed=0)]
    turns += [game.step(f"{guess}\n") for guess in (3, 9, 7)]

    assert [turn.observation for turn in turns] == ["guess", "higher", "lower", ""]
    assert [turn.done for turn in turns] == [False, False, False, True]
    assert sum(turn.reward for turn in turns) == 1.0
    assert game.facts() == {"guesses": 3.0}


def test_an_object_with_the_methods_is_an_environment():
    assert isinstance(Guess(), Environment)
    assert not isinstance(object(), Environment)


def test_a_turn_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        Turn().reward = 1.0
