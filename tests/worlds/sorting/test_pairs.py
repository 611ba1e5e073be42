import pytest

from components.worlds.sorting.labels import SortingPairs
from rlcomp.errors import ConfigError


def test_the_rejected_answer_has_exactly_one_wrong_digit_at_its_place():
    task = SortingPairs(length=4, position=3)

    for index in range(0, 10_000, 97):
        example = task.example(index)
        assert example.demonstration == "".join(sorted(example.prompt.removesuffix(">")))
        pairs = zip(example.demonstration, example.columns["rejected"], strict=True)
        assert [right != wrong for right, wrong in pairs] == [False, False, True, False]


def test_wrong_digits_differ_and_are_always_the_same():
    task = SortingPairs(length=4, position=4)

    wrong = [task.example(5555).columns["rejected"] for _ in range(2)]
    others = {task.example(n).columns["rejected"][-1] for n in range(100)}

    assert wrong[0] == wrong[1]
    assert len(others) > 5


def test_a_place_outside_the_answer_is_refused():
    with pytest.raises(ConfigError, match="position is 5: must be at most length, 4"):
        SortingPairs(length=4, position=5)


def test_a_tie_is_the_right_answer_twice():
    example = SortingPairs(length=6, ties=1.0).example(529417)

    assert example.demonstration == "124579"
    assert example.columns == {"rejected": "(124579)", "tie": True, "label_noise": 0.5}


def test_mislabelled_pairs_are_exchanged_and_none_that_is_held_out():
    task = SortingPairs(length=4, position=3, mislabelled=0.5)
    true = SortingPairs(length=4, position=3)

    exchanged = []
    for index in range(0, 10_000, 37):
        got, want = task.example(index), true.example(index)
        sides = got.demonstration, got.columns["rejected"]
        right = want.demonstration, want.columns["rejected"]
        assert sides in (right, right[::-1])
        assert got.answer == want.answer
        if got.is_held_out(task.held_out):
            assert sides == right
        else:
            exchanged.append(sides != right)
    assert 0.4 < sum(exchanged) / len(exchanged) < 0.6
