"""Verdicts and revisions: by hand what is shown, what is right, and what is held out."""

import pytest

from components.worlds.sorting.judgements import Revisions, Verdicts
from rlcomp.errors import ConfigError
from rlcomp.interfaces.task import is_held_out


def parts(example):
    """Digits, first and second answer of a verdict's prompt."""
    digits, _, rest = example.prompt.partition(">")
    first, _, second = rest.removesuffix("?").partition(",")
    return digits, first, second


EXAMPLES = [Verdicts(length=4).example(n) for n in range(400)]


@pytest.mark.parametrize("number", range(0, 400, 40))
def test_the_answer_names_the_one_that_is_sorted_upwards(number):
    example = EXAMPLES[number]
    digits, *shown = parts(example)

    assert shown[int(example.answer) - 1] == "".join(sorted(digits))
    assert sorted(shown[2 - int(example.answer)]) == sorted(digits)
    assert shown[0] != shown[1]
    assert example.demonstration == example.answer


def test_either_place_is_as_frequent_and_half_of_the_others_are_sorted_downwards():
    first = [example.answer == "1" for example in EXAMPLES]
    worse = [parts(example)[3 - int(example.answer)] for example in EXAMPLES]
    down = [text == "".join(sorted(text, reverse=True)) for text in worse]

    # Binomial, sd 10; few of the other half are sorted downwards by chance (1 in 24 orders).
    assert 160 < sum(first) < 240
    assert 165 < sum(down) < 255


def test_flawed_verdicts_name_the_other_one():
    told = [Verdicts(length=4, flawed=1.0).example(n) for n in range(20)]
    half = [Verdicts(length=4, flawed=0.5).example(n) for n in range(400)]

    assert all({each.demonstration, each.answer} == {"1", "2"} for each in told)
    assert 160 < sum(each.demonstration == each.answer for each in half) < 240


def test_an_answer_in_a_verdict_is_of_no_prompt_that_others_are_evaluated_on():
    task = Verdicts(length=4, held_out=0.5)

    for n in range(20):
        example = task.example(n)
        digits, *_ = parts(example)
        assert example.held_out_by == f"{digits}>"
        assert is_held_out(example.held_out_by, 0.5) == is_held_out(f"{digits}>", 0.5)


def test_a_template_of_ones_own_is_filled_once():
    example = Verdicts(length=3, template="{second}|{first}|{prompt}").example(5)
    second, first, prompt = example.prompt.split("|")

    assert {first, second} != {first}
    assert prompt.endswith(">")
    assert (first, second)[int(example.answer) - 1] == "".join(sorted(prompt[:-1]))


def test_prompts_have_so_many_digits_and_all_of_them_occur():
    asked = [parts(example)[0] for example in EXAMPLES]

    assert {len(digits) for digits in asked} == {4}
    assert {digits[0] for digits in asked} == set("0123456789")


def test_digits_all_alike_are_not_asked_for():
    assert all(len(set(parts(Verdicts(length=2).example(n))[0])) == 2 for n in range(200))


@pytest.mark.parametrize("task", [Verdicts, Revisions])
def test_what_cannot_be_is_refused(task):
    with pytest.raises(ConfigError, match="length is 19: must be at"):
        task(length=19)
    with pytest.raises(ConfigError, match="length is 1: must be at"):
        task(length=1)
    with pytest.raises(ConfigError, match=r"template is '\{prompt\}': must contain"):
        task(template="{prompt}")
    assert len(task(length=18)) == 5_000
    assert len(task(length=2, size=7)) == 7


def test_a_critique_says_whether_the_answer_is_right_and_the_revision_is():
    seen = set()
    for n in range(200):
        example = Revisions(length=3).example(n)
        digits, _, response = example.prompt.removesuffix(":").partition(">")
        right = "".join(sorted(digits))
        mark = "+" if response == right else "-"
        assert example.answer == example.demonstration == f"{mark}={right}"
        assert sorted(response) == sorted(digits)
        assert example.held_out_by == f"{digits}>"
        seen.add((mark, response == right[::-1]))

    assert seen >= {("+", False), ("-", True), ("-", False)}


def test_a_flawed_revision_breaks_the_principle():
    for n in range(20):
        example = Revisions(length=3, flawed=1.0, separator="/").example(n)
        critique, _, shown = example.demonstration.partition("/")
        assert critique == example.answer[0]
        assert shown != example.answer[2:]
        assert sorted(shown) == sorted(example.answer[2:])


def test_downwards_is_half_of_what_is_revised():
    examples = [Revisions(length=6).example(n) for n in range(400)]
    responses = [each.prompt.removesuffix(":").partition(">")[2] for each in examples]

    assert 160 < sum(text == "".join(sorted(text))[::-1] for text in responses) < 250
    assert 65 < sum(each.answer[0] == "+" for each in examples) < 135
