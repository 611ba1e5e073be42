import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from components.advantage.group import LengthWeightedBaseline
from rlcomp.testing import check_component


def test_it_keeps_the_contract():
    check_component(LengthWeightedBaseline())


def test_opo_weighs_by_the_tokens_of_the_response(three_and_one, of_rows):
    # Lengths 3 1 2: (3 x 1 + 1 x 0 + 2 x 1) / 6 = 5/6.
    advantage = of_rows(LengthWeightedBaseline()(three_and_one(1.0, 0.0, 1.0)))

    assert advantage == pytest.approx([1 / 6, -5 / 6, 1 / 6, 0.0])


@given(seed=st.integers(0, 10000))
def test_over_all_tokens_of_a_group_the_advantage_sums_to_0(drawn, seed):
    rows = drawn(seed)

    of_row = LengthWeightedBaseline()(rows)["advantage"].sum(1)

    total = torch.zeros(3, dtype=torch.float64).index_add(0, rows["group_id"], of_row)
    assert total.tolist() == pytest.approx([0.0] * 3, abs=1e-9)
