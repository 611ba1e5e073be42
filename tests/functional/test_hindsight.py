import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rlcomp.functional.goal_conditioned import episode_order, future_positions, geometric_positions


def test_the_later_steps_of_a_short_episode_by_enumeration():
    # Two episodes of three and two steps, written in turns as a full replay may hold them.
    trajectory = torch.tensor([7, 3, 7, 3, 7])
    step = torch.tensor([0, 0, 1, 1, 2])

    order, last = episode_order(trajectory, step)

    # Episode 3 is rows 1, 3, episode 7 rows 0, 2, 4.
    assert order.tolist() == [1, 3, 0, 2, 4]
    assert last.tolist() == [1, 1, 4, 4, 4]


@pytest.mark.parametrize(("place", "left"), [(2, 3), (3, 2), (4, 1)])
def test_every_later_step_is_as_likely(place, left):
    # Of t = 0 of three steps f is 0, 1, 2 with 1/3 each.
    draws = (torch.arange(600) + 0.5) / 600

    later = future_positions(torch.full((600,), place), torch.full((600,), 4), draws)

    counts = torch.bincount(later, minlength=5)[place:]
    assert counts.tolist() == [600 // left] * left


def test_the_largest_draw_stays_within_the_episode():
    largest = torch.tensor([1 - 2**-24])
    assert future_positions(torch.tensor([0]), torch.tensor([10**7]), largest).item() <= 10**7


@given(st.lists(st.integers(0, 4), min_size=1, max_size=30))
def test_goals_come_from_the_own_episode_and_no_earlier_step(episodes):
    trajectory = torch.tensor(episodes)
    step = torch.tensor([episodes[:row].count(episodes[row]) for row in range(len(episodes))])
    order, last = episode_order(trajectory, step)
    place = torch.arange(len(episodes))

    for draw in (0.0, 0.5, 0.999):
        later = order[future_positions(place, last, torch.full((len(episodes),), draw))]
        assert torch.equal(trajectory[later], trajectory[order])
        assert bool((step[later] >= step[order]).all())


@pytest.mark.parametrize(("gamma", "length"), [(0.5, 3), (0.9, 10), (0.99, 1)])
def test_the_discounted_future_is_geometric_and_cut_at_the_episodes_end(gamma, length):
    draws = (torch.arange(20_000) + 0.5) / 20_000
    first, last = torch.full((20_000,), 5), torch.full((20_000,), 4 + length)

    later = geometric_positions(first, last, draws, gamma) - 5

    weights = torch.tensor([gamma**k for k in range(length)])
    share = torch.bincount(later, minlength=length) / 20_000
    # An even grid of draws hits each part within one draw.
    torch.testing.assert_close(share, weights / weights.sum(), atol=1e-4, rtol=0)


def test_the_largest_draw_of_a_discounted_future_stays_within_the_episode():
    largest = torch.tensor([1 - 2**-24])

    for left in (1, 7, 10**6):
        place = geometric_positions(torch.tensor([0]), torch.tensor([left - 1]), largest, 0.99)
        assert 0 <= place.item() < left
