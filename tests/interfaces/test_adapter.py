import numpy as np
import pytest

from rlcomp.errors import ConfigError, DataError
from rlcomp.interfaces.adapter import Adapter, action_number, observation_text, world_seed
from rlcomp.interfaces.environment import Turn
from rlcomp.interfaces.task import Example


class Door:
    """Opens at ``open``, and knows no other word but ``knock``."""

    def __init__(self, note="closed"):
        self.note = note

    def close(self):
        self.note = "locked"


class Opening(Adapter):
    def reset(self, example, seed):
        self.peer = self.make(**self.settings)
        return self.turn(self.peer.note, anchor="front")

    def answer(self, action):
        if action not in ("open", "knock"):
            return None
        return self.turn("", reward=1.0, done=True) if action == "open" else self.turn("knocked")


@pytest.fixture
def door(importable):
    def make(**arguments):
        return Opening(name=importable(Door), **arguments)

    return make


def test_an_observation_is_inside_its_wording_and_the_end_is_never_cut(door):
    made = door(settings={"note": "shut"}, wording="<see>{observation}</see>")

    assert made.reset(Example("", "", ""), 0) == Turn(
        observation="<see>shut", closing="</see>", anchor="front"
    )


def test_an_empty_observation_has_no_wording(door):
    assert door().step("open") == Turn(reward=1.0, done=True)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({}, " open\n"),
        ({"stops": [">"]}, "open>"),
        (
            {"action_pattern": "<do>(.*?)</do>", "stops": ["</do>"]},
            "hm <do>knock</do><do>open</do>",
        ),
    ],
)
def test_the_action_is_the_turn_or_the_last_match_of_the_pattern(door, arguments, said):
    made = door(**arguments)

    assert made.step(said).done
    assert made.facts() == {"unread": 0.0}
    assert made.stops == tuple(arguments.get("stops", ()))


def test_the_peer_is_prepared_in_the_constructor(importable):
    class Early(Opening):
        def prepare(self):
            self.peer = self.make(note="early")

    assert Early(name=importable(Door)).peer.note == "early"


@pytest.mark.parametrize("said", ["jump", "<do>jump</do>", "open"])
def test_a_turn_without_an_action_is_answered_and_counted_and_changes_no_state(door, said):
    made = door(action_pattern="<do>(.*)</do>")
    made.step("<do>knock</do>")
    made.anchor = "behind"

    assert made.step(said) == Turn(
        observation="\nNo action can be read in this.", closing="\n", anchor="behind"
    )
    assert made.facts() == {"unread": 1.0}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"action_pattern": "<do>.*</do>"}, "its group 1 is the action"),
        ({"action_pattern": "("}, "must be a regular expression"),
        ({"wording": "you see"}, "must have {observation} once"),
        ({"wording": "{observation}{observation}"}, "must have {observation} once"),
        ({"stops": [""]}, "must not be empty"),
    ],
)
def test_a_wrong_argument_is_refused_in_the_constructor(door, arguments, message):
    with pytest.raises(ConfigError, match=message):
        door(**arguments)


def test_the_worlds_seed_is_the_examples_if_it_has_one():
    assert world_seed(Example("", "", ""), 2**31 + 5) == 5
    assert world_seed(Example("", "", "", columns={"seed": 7}), 3) == 7


@pytest.mark.parametrize("seed", ["7", -1, True, 1.5])
def test_a_column_seed_that_is_none_is_refused(seed):
    with pytest.raises(DataError, match="column seed is"):
        world_seed(Example("", "", "", columns={"seed": seed}), 3)


def test_numbers_and_arrays_are_shown_as_json():
    assert (
        observation_text((np.int64(3), np.array([0.5, 1.0]), {"ä": None}))
        == '[3, [0.5, 1.0], {"ä": null}]'
    )


def test_the_peer_is_closed_if_there_is_one(door):
    made = door()
    made.close()
    made.reset(Example("", "", ""), 0)
    made.close()

    assert made.peer.note == "locked"


@pytest.mark.parametrize(
    ("action", "names", "chosen"),
    [
        ("up", ["down", "up"], 1),
        ("1", ["down", "up"], "1"),
        ("12", [], 12),
        ("-1", [], "-1"),
        ("\u0663", [], "\u0663"),
        ("1" * 10, [], "1" * 10),
        ("1", ["1", "0"], 0),
    ],
)
def test_an_action_of_a_discrete_space(action, names, chosen):
    assert action_number(action, names) == chosen
