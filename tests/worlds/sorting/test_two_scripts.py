"""Sorting letters of two scripts: by hand what is right, strayed and flawed."""

from components.worlds.sorting.variants import CYRILLIC, LATIN, TwoScripts

PLACES = {letter: place for script in (LATIN, CYRILLIC) for place, letter in enumerate(script)}


def places(text):
    return [PLACES[letter] for letter in text]


def test_scripts_take_turns_and_the_answer_is_in_that_of_the_prompt():
    for n in range(40):
        example = TwoScripts(length=5).example(n)
        own, other = (LATIN, CYRILLIC) if n % 2 == 0 else (CYRILLIC, LATIN)
        order = sorted(places(example.prompt.removesuffix(">")))

        assert example.prompt.endswith(">")
        assert set(example.answer) <= set(own)
        assert set(example.columns["other_script"]) <= set(other)
        assert places(example.answer) == places(example.columns["other_script"]) == order
        assert example.demonstration == example.answer


def test_strayed_demonstrations_are_right_in_the_other_script():
    examples = [TwoScripts(strayed=1.0).example(n) for n in range(20)]
    some = [TwoScripts(strayed=0.4).example(n) for n in range(500)]

    assert all(each.demonstration == each.columns["other_script"] for each in examples)
    # Binomial: mean 200, sd 11.
    assert 155 < sum(each.demonstration != each.answer for each in some) < 245


def test_flawed_demonstrations_have_a_letter_too_many():
    for n in range(20):
        example = TwoScripts(length=4, flawed=1.0).example(n)
        asked, shown = places(example.prompt.removesuffix(">")), places(example.demonstration)
        assert len(shown) == 5
        assert sorted(shown[1:]) == sorted(asked)


def test_the_number_of_examples_is_the_argument():
    assert len(TwoScripts(size=12)) == 12
    assert len({TwoScripts().example(n).prompt for n in range(50)}) == 50


def test_every_letter_of_both_scripts_is_asked_for_and_may_be_the_one_too_many():
    some = [TwoScripts(length=5, flawed=1.0).example(n) for n in range(400)]

    assert {letter for each in some for letter in each.prompt[:-1]} == {*LATIN, *CYRILLIC}
    assert {each.demonstration[0] for each in some} == {*LATIN, *CYRILLIC}


def test_some_demonstrations_are_flawed_and_none_unless_it_is_said():
    some = [TwoScripts(flawed=0.3).example(n) for n in range(500)]

    # Binomial: mean 150, sd 10.
    assert 110 < sum(len(each.demonstration) > len(each.answer) for each in some) < 190
    assert all(each.demonstration == each.answer for each in map(TwoScripts().example, range(99)))
    assert TwoScripts(held_out=0.3).held_out == 0.3
