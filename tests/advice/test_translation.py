"""A whole command line in words of this library."""

import pytest

from rlcomp.advice.translation import corrected_line

HERE = "x is not in the config; here it is "
NOTHING = f"{HERE}nothing to set: leave it out"


def line(refused, *words, fit=lambda one: one, first="recipe=grpo"):
    return corrected_line([first, *refused, *words], refused, [], fit)


def test_what_has_another_unit_is_left_out_and_named_by_its_key():
    refused = {"num_generations=4": f"{HERE}group_size=4", "top_k=-1": f"{HERE}decoding.top_k"}

    assert line(refused, "seed=3") == [
        "the whole line without top_k: rlcomp recipe=grpo group_size=4 seed=3"
    ]


def test_what_is_nothing_here_is_left_out_without_a_word():
    refused = {"num_generations=4": f"{HERE}group_size=4", "lora_dropout=0.1": NOTHING}

    assert line(refused) == ["the whole line: rlcomp recipe=grpo group_size=4"]


def test_a_line_of_nothing_that_is_known_here_stays_with_its_other_words():
    assert line({"lora_dropout=0.1": NOTHING}) == ["the whole line: rlcomp recipe=grpo"]
    assert corrected_line(["lora_dropout=0.1"], {"lora_dropout=0.1": NOTHING}, [], str) == []
    two = {"lora_dropout=0.1": NOTHING, "dropout_of=1": NOTHING}
    assert corrected_line([*two], two, [], str) == []


@pytest.mark.parametrize(
    "refused",
    [
        {},
        {"colour=4": "colour is not in the config"},
        {"num_generations=4": f"{HERE}group_size=4", "colour=4": "colour is not in the config"},
    ],
)
def test_a_line_with_a_word_that_nobody_knows_is_not_written_anew(refused):
    assert line(refused) == []


def test_a_line_that_would_be_refused_again_is_not_offered():
    refused = {"num_generations=4": f"{HERE}group_size=4"}

    assert line(refused, first="recipe=nobodys") == []
    assert line(refused, "no.such=1") == []


def test_a_word_that_this_line_takes_otherwise_is_written_so():
    told = {"num_generations=4": f"{HERE}seed=4"}

    found = line(told, fit=lambda one: "seed=4" if one == "group_size=4" else one)

    assert found == ["the whole line: rlcomp recipe=grpo seed=4"]
