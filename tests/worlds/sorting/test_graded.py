"""Sorted digits, some of them wrong: the labels say which."""

from collections import Counter

import pytest

from components.worlds.sorting.labels import SortingGraded
from rlcomp.errors import ConfigError


def test_labels_are_those_of_the_wrong_digits():
    task = SortingGraded(length=4, most=2)

    ratings = Counter()
    for index in range(0, 10_000, 37):
        example = task.example(index)
        pairs = zip(sorted(example.prompt[:-1]), example.demonstration, strict=True)
        right = [a == b for a, b in pairs]
        held = example.columns
        assert held["rating"] == 3 - right.count(False)
        assert held["desirable"] == all(right)
        assert held["steps"] == list(example.demonstration)
        assert held["step_labels"] == [all(right[: n + 1]) for n in range(4)]
        ratings[held["rating"]] += 1
    assert set(ratings) == {1, 2, 3}
    assert min(ratings.values()) > 60  # of 271, a third each


def test_more_wrong_digits_than_there_are_is_refused():
    with pytest.raises(ConfigError, match="most is 5: must be at most length, 4"):
        SortingGraded(length=4, most=5)


def test_mislabelled_answers_stay_and_their_labels_say_nothing():
    task, true = SortingGraded(length=6, mislabelled=1.0), SortingGraded(length=6)

    agree = []
    for index in range(0, 1_000_000, 997):
        got, want = task.example(index), true.example(index)
        assert got.demonstration == want.demonstration
        if got.is_held_out(task.held_out):
            assert got.columns == want.columns
        else:
            agree.append(got.columns["rating"] == want.columns["rating"])
    assert 0.15 < sum(agree) / len(agree) < 0.25  # one in five ratings, by chance
