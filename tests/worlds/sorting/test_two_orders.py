import pytest

from components.worlds.sorting.variants import TwoOrders
from rlcomp.errors import ConfigError


def test_the_end_of_the_prompt_says_the_order():
    up, down = TwoOrders(length=3).example(2 * 241), TwoOrders(length=3).example(2 * 241 + 1)

    assert (up.prompt, up.answer, up.demonstration) == ("241>", "124", "124")
    assert (down.prompt, down.answer, down.demonstration) == ("241?", "421", "421")


def test_leading_zeros_and_repeated_digits_are_sorted_too():
    task = TwoOrders(length=4)

    assert task.example(2 * 7).answer == "0007"
    assert task.example(2 * 7 + 1).answer == "7000"
    assert task.example(2 * 3131).answer == "1133"


def test_every_number_is_asked_for_in_both_orders():
    task = TwoOrders(length=2)
    prompts = [task.example(n).prompt for n in range(len(task))]

    assert len(task) == 2 * 100
    assert prompts[:4] == ["00>", "00?", "01>", "01?"]
    assert len(set(prompts)) == 200


def test_the_orders_take_turns_as_they_are_listed():
    task = TwoOrders(length=2, orders=["down", "up"])

    assert [task.example(n).answer for n in (2 * 12, 2 * 12 + 1)] == ["21", "12"]


def test_one_order_alone_can_be_asked():
    task = TwoOrders(length=2, orders=["down"])

    assert len(task) == 100
    assert {task.example(n).prompt[-1] for n in range(100)} == {"?"}
    assert task.example(7).answer == "70"


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"length": 19}, "length is 19: must be at most 18"),
        ({"orders": []}, r"orders is \[\]: must be up, down or both"),
        ({"orders": ["up", "up"]}, r"orders is \['up', 'up'\]: must be up, down or both"),
    ],
)
def test_what_cannot_be_is_refused(changes, told):
    with pytest.raises(ConfigError, match=told):
        TwoOrders(**changes)


def test_the_longest_prompts_still_have_an_index():
    assert len(TwoOrders(length=18)) == 2 * 10**18
