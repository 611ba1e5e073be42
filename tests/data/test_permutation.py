from collections import Counter
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlcomp.data.permutation import permutation


@given(st.integers(1, 300), st.integers(0, 2**63), st.text(max_size=5))
def test_a_permutation_holds_every_index_once(length, seed, name):
    assert Counter(permutation(length, seed, name)) == Counter(range(length))


def test_a_permutation_is_the_same_every_time():
    first = list(permutation(50, 7, "epoch 0"))

    assert first == list(permutation(50, 7, "epoch 0"))


@pytest.mark.parametrize("other", [(8, "epoch 0"), (7, "epoch 1")])
def test_another_seed_or_name_gives_another_order(other):
    assert list(permutation(50, 7, "epoch 0")) != list(permutation(50, *other))


def test_a_permutation_of_a_trillion_starts_at_once():
    start = list(islice(permutation(10**12, 0, "epoch 0"), 5))

    assert len(set(start)) == 5
    assert all(0 <= index < 10**12 for index in start)


def test_every_index_is_first_about_equally_often():
    # 4,000 permutations of 8: each index first 500 times, standard deviation sqrt(4000/8*7/8) = 21.
    first = Counter(next(permutation(8, seed, "x")) for seed in range(4000))

    assert all(abs(first[index] - 500) < 5 * 21 for index in range(8))
