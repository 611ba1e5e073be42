import pytest

from rlcomp.data.levels import levels
from rlcomp.errors import ConfigError
from rlcomp.interfaces.task import Example


def with_column(*values):
    return [Example("?", "", "", columns={"hardness": value}) for value in values]


def test_few_values_are_a_level_each():
    assert levels(with_column("easy", 3, 2.5, True), "hardness") == ["easy", "3", "2.5", "True"]


def test_more_numbers_are_cut_into_quarters_of_about_equally_many():
    found = levels(with_column(1, 1, 1, 9, 2, 8, 3, 7, 4, 6, 5, 10), "hardness")

    # Sorted 1 1 1 2 3 4 5 6 7 8 9 10: a level begins with the 4th, 7th and 10th; equal ones stay
    # together.
    assert found[:3] == ["1..1"] * 3
    names = ["8..10", "2..4", "8..10", "2..4", "5..7", "2..4", "5..7", "5..7", "8..10"]
    assert found[3:] == names


def test_equal_numbers_are_in_the_same_level():
    values = [1, 2, 5, 5, 5, 5, 6, 7, 8, 9, 3, 4]

    found = dict(zip(values, levels(with_column(*values), "hardness"), strict=True))

    # Sorted 1 2 3 | 4 5 5 | 5 5 6 | 7 8 9, cut at 4, 5 and 7: what is 5 belongs to the third.
    assert found == {
        **dict.fromkeys((1, 2, 3), "1..3"),
        4: "4..4",
        **dict.fromkeys((5, 6), "5..6"),
        **dict.fromkeys((7, 8, 9), "7..9"),
    }


def test_a_level_is_fit_for_the_name_of_a_metric():
    assert levels(with_column("a/b c" + 60 * "x"), "hardness") == ["a_b_c" + 35 * "x"]


def test_prompts_have_a_length_unless_a_column_is_called_so():
    examples = [Example("123", "", ""), Example("1", "", "", columns={"prompt_length": "own"})]

    assert levels(examples, "prompt_length") == ["3", "own"]


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ([None], "lacks"),
        ([[1]], r"a column with \[1\]: must be a text or a number"),
        (list("abcdefghi"), "9 different texts: .* at most 8 texts, or numbers"),
        ([*range(8), "a"], "9 different texts"),
    ],
)
def test_values_that_make_no_levels_are_refused(values, told):
    with pytest.raises(ConfigError, match=told):
        levels(with_column(*values), "hardness")
