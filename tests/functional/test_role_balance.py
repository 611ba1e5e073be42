import torch
from hypothesis import given
from hypothesis import strategies as st

from rlcomp.functional.group_statistics import equal_shares

kinds = st.lists(st.tuples(st.floats(0.01, 1), st.booleans()), min_size=1, max_size=8)


def test_the_worked_example():
    # The first kind weighs 1 of 4 and is to weigh 2: twice; the other 3 and is to weigh 2: 2/3.
    factor = equal_shares(torch.tensor([1.0, 2.0, 1.0]), torch.tensor([True, False, False]))

    torch.testing.assert_close(factor, torch.tensor([2.0, 2 / 3, 2 / 3]))


def test_a_kind_that_weighs_nothing_leaves_the_other_as_it_is():
    factor = equal_shares(torch.tensor([0.0, 0.3, 0.1]), torch.tensor([True, False, False]))

    assert factor.tolist() == [1.0, 1.0, 1.0]


@given(kinds)
def test_both_kinds_weigh_half_of_what_all_weighed(rows):
    share, first = map(torch.tensor, zip(*rows, strict=True))

    weighed = share * equal_shares(share, first)

    torch.testing.assert_close(weighed.sum(), share.sum())
    if first.any() and not first.all():
        torch.testing.assert_close(weighed[first].sum(), weighed[~first].sum())
