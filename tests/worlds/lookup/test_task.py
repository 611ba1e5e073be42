import pytest

from components.worlds.lookup.task import Lookup
from rlcomp.errors import ConfigError


def applied(example):
    letter, hops = example.prompt[0], int(example.prompt[1])
    for _ in range(hops):
        letter = example.columns["map"]["abcdefghijklmnopqrstuvwxyz".index(letter)]
    return letter


def test_the_answer_follows_from_the_map():
    task = Lookup()
    for index in range(200):
        example = task.example(index)
        assert example.answer == applied(example)
        assert sorted(example.columns["map"]) == [*"abcdefghijklmnop"]
        assert task.example(index) == example


def test_a_demonstration_calls_the_tool_until_it_answers_or_guesses():
    for index in range(400):
        example = Lookup(asked=0.7).example(index)
        *asked, last = example.turns
        letter = example.prompt[0]
        for question, told in zip(asked[::2], asked[1::2], strict=True):
            assert question == f"<{letter}>"
            letter = told[0]
            assert told == f"{letter}|"
        assert "".join(example.turns) == example.demonstration
        if len(asked) // 2 == int(example.prompt[1]):
            assert last == example.answer


@pytest.mark.parametrize(("asked", "questions"), [(0.0, {0}), (1.0, {1, 2, 3, 4})])
def test_none_asks_or_all_ask_to_the_end(asked, questions):
    task = Lookup(asked=asked)
    examples = [task.example(index) for index in range(64)]

    assert {len(example.turns) // 2 for example in examples} == questions


def test_letters_and_hops_take_turns():
    task = Lookup(letters=2, hops=3)

    assert [task.example(n).prompt for n in range(7)] == [
        "a1=", "b1=", "a2=", "b2=", "a3=", "b3=", "a1=",
    ]  # fmt: skip


def test_hops_alternate_from_the_fewest():
    task = Lookup(letters=2, fewest=2, hops=3)
    examples = [task.example(n) for n in range(5)]

    assert [each.prompt for each in examples] == ["a2=", "b2=", "a3=", "b3=", "a2="]
    assert [each.columns["hops"] for each in examples] == [2, 2, 3, 3, 2]
    one = Lookup(fewest=4, hops=4)
    assert {one.example(n).columns["hops"] for n in range(64)} == {4}


def test_the_largest_that_it_can_be():
    task = Lookup(letters=26, hops=9, fewest=9, examples=2**63 - 1)

    assert task.example(25).prompt == "z9="
    assert len(task.example(25).columns["map"]) == 26


@pytest.mark.parametrize(
    ("name", "value"),
    [("fewest", 5), ("letters", 27), ("hops", 10), ("examples", 2**63), ("asked", 1.5)],
)
def test_what_it_cannot_be_is_refused(name, value):
    with pytest.raises(ConfigError, match=name):
        Lookup(**{name: value})
