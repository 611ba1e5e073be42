import itertools
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rlcomp.functional.continuous_action import (
    bin_index,
    bin_value,
    gaussian_entropy,
    gaussian_log_prob,
    interpolant,
    sde_mean,
    sde_scale,
    sde_std,
    time_grid,
)

LOW, HIGH = torch.tensor([-2.0, 0.0]), torch.tensor([2.0, 1.0])


@given(st.integers(2, 300))
def test_bin_index_inverts_bin_value(num_bins):
    number = torch.arange(num_bins)[:, None].expand(-1, 2)

    assert torch.equal(
        bin_index(bin_value(number, LOW, HIGH, num_bins), LOW, HIGH, num_bins), number
    )


@given(st.floats(-2, 2), st.integers(2, 300))
def test_bin_value_is_within_half_a_bin(value, num_bins):
    low, high = torch.tensor(-2.0).double(), torch.tensor(2.0).double()
    given_value = torch.tensor(value).double()

    back = bin_value(bin_index(given_value, low, high, num_bins), low, high, num_bins)

    assert abs(float(back) - value) <= 4 / (num_bins - 1) / 2 + 1e-12


def test_values_outside_the_range_get_the_end_bins():
    value = torch.tensor([[-5.0, -0.1], [2.0, 1.0], [9.0, 3.0], [0.0, 0.5]])

    assert bin_index(value, LOW, HIGH, 7).tolist() == [[0, 0], [6, 6], [6, 6], [3, 3]]


def test_bins_by_hand():
    values = bin_value(torch.arange(7), torch.tensor(-1.0), torch.tensor(1.0), 7)

    assert values.tolist() == pytest.approx([-1, -2 / 3, -1 / 3, 0, 1 / 3, 2 / 3, 1])


# Data N(m, S^2).
M, S = 1.5, 0.4


def velocity(x, time):
    """v(x, t) of data N(m, S^2): x_t and eps are jointly Gaussian."""
    left = 1 - time
    slope = (time - left * S**2) / (left**2 * S**2 + time**2)
    return -M + slope * (x - left * M)


def exact(time):
    """Mean and variance of x_t = (1 - t) x_0 + t eps."""
    return (1 - time) * M, (1 - time) ** 2 * S**2 + time**2


def marginals(level, steps, start):
    """Mean and variance from a time on, carried on exactly: every step is linear in x."""
    grid = start * time_grid(steps).double()
    (mean, variance), result = exact(start), []
    for time, after in itertools.pairwise(grid):
        noise = sde_scale(time, after, level)
        at = [sde_mean(x, velocity(x, time), time, after, noise) for x in torch.eye(2).double()[0]]
        slope, offset = at[0] - at[1], at[1]  # at x = 1 and x = 0
        mean = slope * mean + offset
        variance = slope**2 * variance + sde_std(time, after, noise) ** 2
        result.append((float(after), float(mean), float(variance)))
    return result


def error(level, steps, start=0.9):
    """The greatest distance from the exact mean and variance."""
    result = [
        (exact(time), mean, variance) for time, mean, variance in marginals(level, steps, start)
    ]
    return max(max(abs(m - mean), abs(v - variance)) for (m, v), mean, variance in result)


@pytest.mark.parametrize("level", [0.0, 0.3, 0.7, 1.0])
def test_sde_marginals_equal_those_of_the_flow(level):
    # From t = .9, where the noise is finite: what is left is the error of Euler's method, which
    # halves with the step.
    assert error(level, 800) < 4e-3
    assert 0.4 < error(level, 800) / error(level, 400) < 0.6


def test_the_first_sde_step_adds_variance():
    # At t = 1 the noise is as great as the step allows, s^2 dt = a^2, however fine the grid:
    # (1 - a^2 / 2)^2 + a^2 = 1 + a^4 / 4. At a = .7 that is 6 % of the variance, which the later
    # steps take away again.
    _, _, variance = marginals(0.7, 1000, 1.0)[0]
    last = marginals(0.7, 1000, 1.0)[-1]

    assert variance == pytest.approx(1 + 0.7**4 / 4, abs=4e-3)
    assert last[1] == pytest.approx(M, abs=0.01)
    assert last[2] == pytest.approx(S**2, rel=0.03)


def test_sde_without_noise_is_the_euler_step():
    x, v = torch.tensor([2.0]), torch.tensor([3.0])
    time, after = torch.tensor(0.5), torch.tensor(0.25)

    # 2 - .25 * 3
    assert sde_mean(x, v, time, after, torch.tensor(0.0)).item() == 1.25
    assert sde_std(time, after, torch.tensor(0.0)).item() == 0.0


def test_sde_step_by_hand():
    x, v, s = torch.tensor([2.0]), torch.tensor([3.0]), torch.tensor(2.0)
    time, after = torch.tensor(0.5), torch.tensor(0.25)

    # s^2 / 2t = 4, dt = -.25: x (1 - 1) + v (1 + 4 * .5) (-.25) = -2.25
    assert sde_mean(x, v, time, after, s).item() == pytest.approx(-2.25)
    assert sde_std(time, after, s).item() == pytest.approx(1.0)  # 2 sqrt(.25)


def test_sde_scale_grows_towards_time_1():
    time = torch.tensor([1.0, 0.9, 0.5])
    after = torch.tensor([0.9, 0.5, 0.1])

    # .7 sqrt(1 / .1), .7 sqrt(.9 / .1), .7 sqrt(.5 / .5)
    expected = torch.tensor([0.7 * math.sqrt(10), 2.1, 0.7])
    torch.testing.assert_close(sde_scale(time, after, 0.7), expected)


def test_time_grid_goes_from_1_to_0():
    assert time_grid(4).tolist() == [1.0, 0.75, 0.5, 0.25, 0.0]


def test_interpolant_is_data_at_0_and_noise_at_1():
    data, noise = torch.tensor([[4.0], [4.0], [4.0]]), torch.tensor([[1.0], [1.0], [1.0]])

    mixed = interpolant(data, noise, torch.tensor([[0.0], [1.0], [0.25]]))

    assert mixed.flatten().tolist() == [4.0, 1.0, 3.25]


def test_gaussian_log_prob_and_entropy_equal_torch():
    torch.manual_seed(0)
    value, mean, std = torch.randn(5, 3), torch.randn(5, 3), torch.rand(5, 1) + 0.1
    normal = torch.distributions.Normal(mean, std.expand(5, 3))

    torch.testing.assert_close(gaussian_log_prob(value, mean, std), normal.log_prob(value).sum(-1))
    torch.testing.assert_close(gaussian_entropy(std[:, 0], 3), normal.entropy().sum(-1))
