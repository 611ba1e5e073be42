import pytest

from components.worlds.sorting.variants import Substitution
from rlcomp.errors import ConfigError


def test_the_value_in_front_stands_for_what_is_hidden():
    # Value 7; of the places 01, 02, 12 the second; the digit 4.
    example = Substitution(length=3, hidden=2, values=[2, 7]).example((4 * 3 + 1) * 2 + 1)

    assert (example.prompt, example.answer, example.demonstration) == ("7:?4?>", "477", "477")


def test_every_prompt_is_another_one_and_its_answer_follows():
    task = Substitution(length=3, hidden=1, values=[0, 5, 9])
    examples = [task.example(n) for n in range(len(task))]

    assert len(task) == 3 * 3 * 100
    assert len({example.prompt for example in examples}) == len(task)
    for example in examples:
        value, shown = example.prompt.rstrip(">").split(":")
        assert shown.count("?") == 1
        assert example.answer == "".join(sorted(shown.replace("?", value)))
    assert {example.prompt[0] for example in examples} == {"0", "5", "9"}


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"length": 13}, "length is 13: must be at most 12"),
        ({"hidden": 5}, "hidden is 5: must be below length, 5"),
        ({"values": []}, "must be different digits"),
        ({"values": [1, 1]}, "must be different digits"),
        ({"values": [10]}, "must be different digits"),
    ],
)
def test_what_cannot_be_is_refused(changes, told):
    with pytest.raises(ConfigError, match=told):
        Substitution(**changes)


def test_all_digits_stand_in_front_unless_told_otherwise():
    assert [Substitution().example(n).prompt[0] for n in range(11)] == [*"01234567890"]


def test_the_ends_of_the_ranges_are_allowed():
    assert len(Substitution(length=12, hidden=11, values=[9])) == 12 * 10
