import itertools
import math

import pytest
import torch

from rlcomp.functional.continuous_action import (
    gaussian_entropy,
    gaussian_log_prob,
    interpolant,
    sde_mean,
    sde_noise,
    sde_std,
    time_grid,
)

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
    (mean, variance), found = exact(start), []
    for time, after in itertools.pairwise(grid):
        noise = sde_noise(time, after, level)
        at = [sde_mean(x, velocity(x, time), time, after, noise) for x in torch.eye(2).double()[0]]
        slope, offset = at[0] - at[1], at[1]  # at x = 1 and x = 0
        mean = slope * mean + offset
        variance = slope**2 * variance + sde_std(time, after, noise) ** 2
        found.append((float(after), float(mean), float(variance)))
    return found


def error(level, steps, start=0.9):
    """The greatest distance from the exact mean and variance."""
    found = [
        (exact(time), mean, variance) for time, mean, variance in marginals(level, steps, start)
    ]
    return max(max(abs(m - mean), abs(v - variance)) for (m, v), mean, variance in found)


@pytest.mark.parametrize("level", [0.0, 0.3, 0.7, 1.0])
def test_marginals_are_those_of_the_flow_whatever_the_noise(level):
    # From t = .9, where the noise is finite: what is left is the error of Euler's method, which
    # halves with the step.
    assert error(level, 800) < 4e-3
    assert 0.4 < error(level, 800) / error(level, 400) < 0.6


def test_the_first_step_from_pure_noise_adds_to_the_variance():
    # At t = 1 the noise is as great as the step allows, s^2 dt = a^2, however fine the grid:
    # (1 - a^2 / 2)^2 + a^2 = 1 + a^4 / 4. At a = .7 that is 6 % of the variance, which the later
    # steps take away again.
    _, _, variance = marginals(0.7, 1000, 1.0)[0]
    last = marginals(0.7, 1000, 1.0)[-1]

    assert variance == pytest.approx(1 + 0.7**4 / 4, abs=4e-3)
    assert last[1] == pytest.approx(M, abs=0.01)
    assert last[2] == pytest.approx(S**2, rel=0.03)


def test_without_noise_it_is_the_euler_step_of_the_flow():
    x, v = torch.tensor([2.0]), torch.tensor([3.0])
    time, after = torch.tensor(0.5), torch.tensor(0.25)

    # 2 - .25 * 3
    assert sde_mean(x, v, time, after, torch.tensor(0.0)).item() == 1.25
    assert sde_std(time, after, torch.tensor(0.0)).item() == 0.0


def test_a_step_by_hand():
    x, v, s = torch.tensor([2.0]), torch.tensor([3.0]), torch.tensor(2.0)
    time, after = torch.tensor(0.5), torch.tensor(0.25)

    # s^2 / 2t = 4, dt = -.25: x (1 - 1) + v (1 + 4 * .5) (-.25) = -2.25
    assert sde_mean(x, v, time, after, s).item() == pytest.approx(-2.25)
    assert sde_std(time, after, s).item() == pytest.approx(1.0)  # 2 sqrt(.25)


def test_the_noise_grows_towards_time_one_where_the_next_time_stands_in():
    time = torch.tensor([1.0, 0.9, 0.5])
    after = torch.tensor([0.9, 0.5, 0.1])

    # .7 sqrt(1 / .1), .7 sqrt(.9 / .1), .7 sqrt(.5 / .5)
    expected = torch.tensor([0.7 * math.sqrt(10), 2.1, 0.7])
    torch.testing.assert_close(sde_noise(time, after, 0.7), expected)


def test_the_grid_goes_from_noise_to_data():
    assert time_grid(4).tolist() == [1.0, 0.75, 0.5, 0.25, 0.0]


def test_the_interpolant_is_data_at_zero_and_noise_at_one():
    data, noise = torch.tensor([[4.0], [4.0], [4.0]]), torch.tensor([[1.0], [1.0], [1.0]])

    mixed = interpolant(data, noise, torch.tensor([[0.0], [1.0], [0.25]]))

    assert mixed.flatten().tolist() == [4.0, 1.0, 3.25]


def test_log_probs_and_entropy_are_those_of_torch():
    torch.manual_seed(0)
    value, mean, std = torch.randn(5, 3), torch.randn(5, 3), torch.rand(5, 1) + 0.1
    normal = torch.distributions.Normal(mean, std.expand(5, 3))

    torch.testing.assert_close(gaussian_log_prob(value, mean, std), normal.log_prob(value).sum(-1))
    torch.testing.assert_close(gaussian_entropy(std[:, 0], 3), normal.entropy().sum(-1))
