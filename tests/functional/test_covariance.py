import torch
from hypothesis import given
from hypothesis import strategies as st

from rlcomp.functional.clip_bounds import covariance, draw_tokens, highest, share_count

NAN = float("nan")
ALL = torch.ones(1, 4, dtype=torch.bool)


def test_by_hand_over_the_mask():
    mask = torch.tensor([[True, True, False], [True, False, False]])
    log_probs = torch.tensor([[-1.0, -2.0, NAN], [-3.0, NAN, NAN]])  # mean -2
    advantage = torch.tensor([[2.0, -1.0, NAN], [-1.0, NAN, NAN]])  # mean 0

    # 2 * 1, -1 * 0, -1 * -1
    got = covariance(log_probs, advantage, mask)

    torch.testing.assert_close(got, torch.tensor([[2.0, 0.0, 0.0], [1.0, 0.0, 0.0]]))


@given(st.floats(-5, 5), st.floats(-5, 5))
def test_a_constant_added_to_either_changes_nothing(a, b):
    log_probs = torch.tensor([[-1.0, -2.5, -0.3, -4.0]], dtype=torch.float64)
    advantage = torch.tensor([[1.0, -0.5, 0.2, 2.0]], dtype=torch.float64)

    torch.testing.assert_close(
        covariance(log_probs + a, advantage + b, ALL), covariance(log_probs, advantage, ALL)
    )


def test_statistics_of_half_precision_are_in_float32():
    values = torch.tensor([[-1.0, -2.0, -3.0, -4.0]], dtype=torch.bfloat16)

    assert covariance(values, values, ALL).dtype == torch.float32


def test_no_token_at_all_gives_zeros():
    assert covariance(torch.ones(1, 4), torch.ones(1, 4), ~ALL).tolist() == [[0, 0, 0, 0]]
    assert not highest(torch.ones(1, 4), ~ALL, 2).any()
    assert not draw_tokens(~ALL, torch.ones(1, 4), 2, torch.Generator()).any()


def test_a_share_is_rounded_down_but_never_to_none():
    assert [share_count(ALL, share) for share in (0.0, 0.2, 0.74, 0.75)] == [1, 1, 2, 3]


def test_the_highest_are_taken_with_all_that_equal_the_last():
    values = torch.tensor([[5.0, 3.0, 3.0, 1.0]])

    assert highest(values, ALL, 1).tolist() == [[True, False, False, False]]
    assert highest(values, ALL, 2).tolist() == [[True, True, True, False]]
    assert highest(values, ALL, 9).tolist() == [[True] * 4]


def test_values_that_differ_by_rounding_are_equal():
    # Two answers with the same first token, read in other batches.
    values = torch.tensor([[5.0, 3.0000005, 3.0, 1.0]])

    assert highest(values, ALL, 2).tolist() == [[True, True, True, False]]


def test_what_is_not_eligible_is_never_taken():
    values = torch.tensor([[NAN, 3.0, 9.0, 1.0]])
    eligible = torch.tensor([[False, True, False, True]])

    assert highest(values, eligible, 1).tolist() == [[False, True, False, False]]


@given(st.integers(0, 99), st.integers(1, 12), st.permutations(range(8)))
def test_a_draw_does_not_depend_on_the_order_of_rows_nor_on_padding(seed, count, order):
    eligible = torch.rand(8, 5, generator=torch.Generator().manual_seed(seed)) < 0.6
    by = torch.randn(8, 5, generator=torch.Generator().manual_seed(seed + 100))

    here = draw_tokens(eligible, by, count, torch.Generator().manual_seed(1))
    wide = (
        torch.nn.functional.pad(eligible[order], (0, 2)),
        torch.nn.functional.pad(by[order], (0, 2), value=NAN),
    )
    there = draw_tokens(*wide, count, torch.Generator().manual_seed(1))

    assert there[:, :5].tolist() == here[order].tolist()
    assert int(here.sum()) == min(count, int(eligible.sum()))
    assert not (here & ~eligible).any()


def test_equals_are_drawn_by_their_place():
    # All of one answer's tokens have its advantage.
    by = torch.tensor([[1.0, 1.0, 1.0, 1.0]])

    draws = [draw_tokens(ALL, by, 2, torch.Generator().manual_seed(3)).tolist() for _ in range(2)]

    assert draws[0] == draws[1]
    assert sum(draws[0][0]) == 2


def test_every_token_is_drawn_at_some_time():
    generator = torch.Generator().manual_seed(0)
    by = torch.arange(4.0)[None]

    times = sum(draw_tokens(ALL, by, 1, generator).int() for _ in range(400))

    # 100 each on average, with a deviation of 9.
    assert int(times.min()) > 60
    assert int(times.sum()) == 400
