import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.advantage.pass_at_k import PassAtK
from rlcomp.testing import check_component


@pytest.mark.parametrize("epsilon", [None, 1e-6])
def test_it_keeps_the_contract(epsilon):
    check_component(PassAtK(epsilon=epsilon))


def test_only_the_best_answer_counts(three_and_one, of_rows):
    # The best one, 4, leads the second best by 3.
    advantage = of_rows(PassAtK(epsilon=None)(three_and_one(1.0, 4.0, 0.0)))

    assert advantage == [0.0, 3.0, 0.0, 0.0]


@given(seed=st.integers(0, 10000))
def test_at_most_one_answer_of_a_group_is_credited_and_none_is_blamed(drawn, seed):
    rows = drawn(seed)

    advantage = PassAtK()(rows)["advantage"]

    credited = rows["group_id"][(advantage != 0).any(1)].tolist()
    assert len(credited) == len(set(credited))
    assert bool((advantage >= 0).all())
