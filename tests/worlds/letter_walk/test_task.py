"""Letter walks as a text."""

from collections import Counter

import pytest

from components.worlds.letter_walk.task import LetterWalk
from rlcomp.errors import ConfigError


@pytest.mark.parametrize(
    ("index", "text"),
    [
        (0, "a:ABCDEF"),
        (25, "a:ZABCDE"),
        (26 + 1, "b:BDFHJL"),
        (4 * 26 + 19, "e:TYDINS"),  # 19, 24, 29 - 26, 34 - 26, 39 - 26, 44 - 26
        (12 * 26 - 1, "l:ZLXJVH"),  # 25, 37 - 26, 49 - 26, 61 - 52, 73 - 52, 85 - 78
    ],
)
def test_each_letter_is_one_step_further(index, text):
    example = LetterWalk().example(index)

    assert example.answer == example.source == text
    assert (example.prompt, example.demonstration) == (text[:2], text[2:])


def test_every_letter_is_as_frequent_as_any_other_at_every_place_and_none_comes_twice():
    task = LetterWalk(steps=12, longest=11)
    walks = [task.example(index).answer[2:] for index in range(len(task))]

    assert len(walks) == len(set(walks)) == 312
    assert {len(walk) for walk in walks} == {len(set(walk)) for walk in walks} == {13}
    for place in range(13):
        assert set(Counter(walk[place] for walk in walks).values()) == {12}


def test_there_is_a_walk_from_every_letter_by_every_step():
    assert len(LetterWalk(steps=3)) == 78
    assert LetterWalk(steps=3, longest=1).example(77).answer == "c:ZCF"


@pytest.mark.parametrize(("name", "value", "most"), [("steps", 13, 12), ("longest", 12, 11)])
def test_a_walk_that_meets_itself_is_refused(name, value, most):
    with pytest.raises(ConfigError, match=f"{name} is {value}: must be at most {most}"):
        LetterWalk(**{name: value})
