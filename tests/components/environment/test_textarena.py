import random
import sys

import pytest

from components.environment.text_games import TextArena
from rlcomp.errors import MissingExtra
from rlcomp.interfaces.environment import Environment, Turn
from rlcomp.interfaces.task import Example

ANY = Example("", "", "")


class Guess:
    """As a one-player game: messages to a player are (sender, text, kind), -1 the game."""

    def __init__(self, most=9):
        self.most = most

    def reset(self, num_players, seed=None):
        assert num_players == 1
        random.seed(seed)
        self.messages = [(-1, f"1 to {self.most}", "PROMPT")]

    def get_observation(self):
        told, self.messages = self.messages, []
        return 0, told

    def step(self, action):
        self.last = action
        self.messages = [(0, action, "PLAYER_ACTION"), (-1, f"no, {random.random()}", "MESSAGE")]
        return action == "[3]", {}

    def close(self):
        return {0: 1}, {0: {"role": "Player 0"}}


class Grows(Guess):
    """As behind TextArena's own wrapper for language models: all so far, each time."""

    whole = ""

    def get_observation(self):
        _, told = super().get_observation()
        self.whole += "".join(f"\n[{sender}] {text}" for sender, text, _ in told)
        return 0, self.whole


def test_the_policy_hears_what_is_new_and_not_what_it_said_itself(importable):
    game = TextArena(name=importable(Guess), settings={"most": 5}, wording="{observation}|")
    assert isinstance(game, Environment)

    draws = random.Random(7)
    assert game.reset(Example("", "", "", columns={"seed": 7}), 1) == Turn(
        observation="1 to 5", closing="|"
    )
    assert game.step("[2]") == Turn(observation=f"no, {draws.random()}", closing="|")
    assert game.step(" [3]\n") == Turn(reward=1.0, done=True)
    assert game.peer.last == "[3]"
    assert game.facts() == {"unread": 0.0}
    game.close()


def test_of_a_text_that_grows_only_the_end_is_told(importable):
    game = TextArena(name=importable(Grows), wording="{observation}|")

    assert game.reset(ANY, 7).observation == "\n[-1] 1 to 9"
    assert game.step("[2]").observation == f"\n[0] [2]\n[-1] no, {random.Random(7).random()}"


def test_games_side_by_side_do_not_change_one_anothers_draws_nor_ours(importable):
    games = [TextArena(name=importable(Guess)) for _ in range(2)]
    random.seed(11)
    for game in games:
        game.reset(ANY, 7)

    told = [[game.step("[2]").observation for game in games] for _ in range(3)]

    alone = random.Random(7)
    assert told == [[f"\nno, {draw}"] * 2 for draw in [alone.random() for _ in range(3)]]
    assert random.random() == random.Random(11).random()


def test_a_real_game():
    # Of TextArena's own draws: from seed 3 the number is 8.
    game = TextArena(name="GuessTheNumber-v0-raw")

    assert "between 1 and 20" in game.reset(ANY, 3).observation
    assert game.step("I say [7]") == Turn(
        observation="\nThe target number is higher.", closing="\n"
    )
    assert game.step("[8]") == Turn(reward=1.0, done=True)


def test_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "textarena", None)

    with pytest.raises(MissingExtra, match=r"rlcomp\[games\]"):
        TextArena(name="GuessTheNumber-v0")


def test_a_game_that_draws_when_it_is_made_draws_the_same_in_every_process(importable):
    class Drawn(Guess):
        def __init__(self):
            super().__init__()
            self.number = random.random()

    random.seed(5)
    assert TextArena(name=importable(Drawn)).peer.number == random.Random(0).random()
    assert random.random() == random.Random(5).random()  # the process's own are not touched
