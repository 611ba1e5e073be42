import sys

import pytest

from components.environment.text_games import GymnasiumText
from rlcomp.arguments import Unbuilt
from rlcomp.episodes.host import Start
from rlcomp.episodes.in_process import InProcessHosts
from rlcomp.errors import MissingExtra
from rlcomp.interfaces.environment import Environment, Turn
from rlcomp.interfaces.task import Example


class Texts:
    """As gymnasium's Text space: which texts are actions."""

    def contains(self, action):
        return isinstance(action, str) and action.isalpha()


class Echo:
    """Says everything back; ends at ``end``, and by its own limit after three steps."""

    def __init__(self, reward=0.5):
        self.action_space = Texts()
        self.reward = reward

    def reset(self, *, seed=None, options=None):
        self.steps = 0
        return f"seed {seed}, {options}", {}

    def step(self, action):
        self.steps += 1
        return action[::-1], self.reward, action == "end", self.steps == 3, {}

    def close(self):
        self.steps = None


WORLD = Example("", "", "", columns={"seed": 5, "options": {"hard": True}})


def test_texts_are_actions_and_observations_and_states(importable):
    echo = GymnasiumText(name=importable(Echo), settings={"reward": 2.0}, wording="{observation}|")
    assert isinstance(echo, Environment)

    first = "seed 5, {'hard': True}"
    assert echo.reset(WORLD, 0) == Turn(observation=first, closing="|", anchor=first)
    assert echo.step("abc") == Turn(observation="cba", closing="|", anchor="cba", reward=2.0)
    assert "No action" in echo.step("a b").observation
    assert echo.step("end") == Turn(
        observation="dne", closing="|", anchor="dne", reward=2.0, done=True
    )
    assert echo.facts() == {"unread": 1.0, "time_limit": 0.0}
    echo.close()
    assert echo.peer.steps is None


def test_a_limit_of_the_environments_own_ends_the_episode(importable):
    echo = GymnasiumText(name=importable(Echo))
    echo.reset(WORLD, 0)

    assert [echo.step("a").done for _ in range(3)] == [False, False, True]
    assert echo.facts()["time_limit"] == 1.0


def lake(**arguments):
    settings = {"is_slippery": False, "render_mode": "ansi"}
    return GymnasiumText(name="FrozenLake-v1", settings=settings, **arguments)


def test_a_numbered_action_has_a_name_and_the_picture_is_read():
    # Four rows of four rooms, numbered by rows; 5 is a hole, and 15 the goal.
    walk = lake(actions=["left", "down", "right", "up"], rendered=True)
    start = walk.reset(Example("", "", ""), 3)

    assert start.observation.endswith("FFF\nFHFH\nFFFH\nHFFG\n")
    assert start.anchor == "0"
    assert walk.step("right").observation.startswith("\n  (Right)\nS\x1b[41mF")
    assert [walk.step(each).anchor for each in ("left", "down", "down", "right")] == [
        "0",
        "4",
        "8",
        "9",
    ]
    assert walk.step("2").anchor == "9"  # where actions have names, digits are none
    assert [walk.step(each).anchor for each in ("down", "right")] == ["13", "14"]
    goal = walk.step("right")
    assert (goal.anchor, goal.reward, goal.done) == ("15", 1.0, True)


def test_without_names_digits_are_read():
    walk = lake()
    walk.reset(Example("", "", ""), 3)

    assert walk.step("1").anchor == "4"
    assert [walk.step(each).reward for each in ("4", "-1", "down", "1" * 5000)] == [0.0] * 4
    assert walk.facts()["unread"] == 4.0


def test_equal_seeds_give_equal_worlds():
    def hand(seed):
        return GymnasiumText(name="Blackjack-v1").reset(Example("", "", ""), seed).anchor

    assert hand(3) == hand(3) == "[7, 10, 0]"  # of gymnasium 1.4's own generator
    assert len({hand(seed) for seed in range(8)}) > 4


def test_a_host_makes_it_of_its_description():
    described = {"name": "FrozenLake-v1", "settings": {"is_slippery": False}, "stops": [";"]}
    target = "components.environment.text_games.GymnasiumText"
    host = InProcessHosts().host(Unbuilt(target, described))

    opened = host.open([Start(Example("", "", ""), seed) for seed in range(2)])
    assert [turn.anchor for turn in opened] == ["0", "0"]
    assert host.stops == (";",)
    # Three times to the right and once down is a hole: room 7.
    assert [host.step({1: "2;"})[1].anchor for _ in range(3)] == ["1", "2", "3"]
    assert host.step({0: "1;", 1: "1;"})[1] == Turn(
        observation="\n7", closing="\n", done=True, anchor="7"
    )
    assert host.facts() == [{"unread": 0.0, "time_limit": 0.0}] * 2
    host.close()


def test_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "gymnasium", None)

    with pytest.raises(MissingExtra, match=r"rlcomp\[envs\]"):
        GymnasiumText(name="FrozenLake-v1")
