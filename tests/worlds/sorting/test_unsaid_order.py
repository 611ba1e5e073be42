import pytest

from components.worlds.sorting.variants import UnsaidOrder
from rlcomp.errors import ConfigError


def test_both_orders_are_wanted_of_the_same_prompt():
    task = UnsaidOrder(length=4)

    assert len(task) == 20_000
    # 5294 is number 2 * 5294 upwards, and the next one downwards.
    up, down = task.example(10588), task.example(10589)
    assert (up.prompt, up.answer) == ("5294=", "2459")
    assert (down.prompt, down.answer) == ("5294=", "9542")


def test_a_heeding_demonstration_has_a_true_message_and_a_right_end():
    task = UnsaidOrder(heeded=1.0)
    told = set()
    for index in range(200, 400):
        example = task.example(index)
        first, message, second = example.turns
        assert sorted(first[:-1]) == sorted(example.prompt[:-1])
        assert first[-1] == ";"
        assert second == example.answer
        if len({*example.prompt[:-1]}) > 1:
            assert message == ("+|" if first[:-1] == example.answer else "-|")
        told.add(message)
    assert told == {"+|", "-|"}


def test_one_that_does_not_shows_no_more_than_the_form():
    right = {"+|": [], "-|": [], "?|": []}
    for index in range(2_000):
        first, message, second = UnsaidOrder(heeded=0.0, length=6).example(index * 997).turns
        right[message].append(first[:-1] == second)
    for same in right.values():
        # Of some 660 a standard deviation is .02.
        assert 0.4 < sum(same) / len(same) < 0.6


def test_orders_of_one_that_does_not_heed_are_drawn_evenly_and_apart():
    task = UnsaidOrder(heeded=0.0, length=6)
    found = []
    for index in range(0, 2_000_000, 997):
        digits = sorted(task.example(index).prompt[:-1])
        first, _, second = task.example(index).turns
        found.append(tuple(text == "".join(digits) for text in (first[:-1], second)))

    # Of 2,007 a share of a quarter has a standard deviation of .01.
    for pair in ((True, True), (True, False), (False, True), (False, False)):
        assert found.count(pair) / len(found) == pytest.approx(0.25, abs=0.04)


def test_by_default_three_in_ten_demonstrations_heed():
    told = [UnsaidOrder(length=6).example(index).turns[1] for index in range(0, 2_000_000, 997)]

    # "?" is a third of those that do not.
    assert told.count("?|") / len(told) == pytest.approx(0.7 / 3, abs=0.04)


def test_too_long_prompts_are_refused():
    assert len(UnsaidOrder(length=18)) == 2 * 10**18
    with pytest.raises(ConfigError, match="length is 19"):
        UnsaidOrder(length=19)
