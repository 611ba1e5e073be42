"""Continuous actions: flow matching with its stochastic sampler, and bins.

A flow is ``x_t = (1 - t) x_0 + t eps``, ``v = eps - x_0``; sampling goes from ``t = 1`` (noise) to
0 (data), so that a step ``dt`` is negative. States, data, noise ``eps`` and velocities are
``[..., D]``; times and ``s`` broadcast with them, such as ``[..., 1]``. ``after`` is the time of
the next state, so that ``dt = after - time``.

``s`` is the scale of the SDE's noise at a time; the constant ``a`` is its level (``sde_scale``).

Source: Lipman et al. 2023, arXiv:2210.02747 and Liu et al. 2022, arXiv:2209.03003 (rectified flow);
Liu et al. 2025, arXiv:2505.05470, section 4.2 (the SDE).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor


def interpolant(data: Tensor, noise: Tensor, time: Tensor) -> Tensor:
    """Interpolate between data and noise: ``x_t = (1 - t) x_0 + t eps``.

    Examples:
        >>> interpolant(torch.tensor([[4.0]]), torch.tensor([[0.0]]), torch.tensor([[0.25]]))
        tensor([[3.]])
    """
    return (1 - time) * data + time * noise


def time_grid(num_steps: int) -> Tensor:
    """Return the times ``[num_steps + 1]`` from 1 to 0, evenly spaced, float32.

    Examples:
        >>> time_grid(2)
        tensor([1.0000, 0.5000, 0.0000])
    """
    return torch.linspace(1.0, 0.0, num_steps + 1)


def sde_scale(time: Tensor, after: Tensor, level: float) -> Tensor:
    """Compute ``s_t = a sqrt(t / (1 - t))``; at ``t = 1`` the denominator uses the next time.

    ``1 - t`` is 0 there. ``level`` is ``a``. ``time`` and ``after`` broadcast.

    Source: Liu et al. 2025 (Flow-GRPO), arXiv:2505.05470, section 4.2.

    Examples:
        >>> time, after = torch.tensor([1.0, 0.5]), torch.tensor([0.75, 0.25])
        >>> sde_scale(time, after, 1.0)
        tensor([2., 1.])
    """
    return level * (time / (1 - torch.where(time == 1, after, time))).sqrt()


def sde_mean(state: Tensor, velocity: Tensor, time: Tensor, after: Tensor, scale: Tensor) -> Tensor:
    """Compute the mean of the next state: ``x (1 + s^2 dt / 2t) + v (1 + s^2 (1 - t) / 2t) dt``.

    The drift combines the flow with its score, ``-(x + (1 - t) v) / t``, so that the SDE has the
    marginals of the ODE whatever ``scale`` ``s`` is (:func:`sde_scale`). With ``s = 0`` the
    mean is the ODE's Euler step. ``[..., D]``.

    Source: Liu et al. 2025 (Flow-GRPO), arXiv:2505.05470, section 4.2.

    Examples:
        >>> one = torch.ones(1)
        >>> sde_mean(2 * one, 3 * one, one, 0.5 * one, 0 * one)
        tensor([0.5000])
    """
    step = after - time
    share = scale.square() / (2 * time)
    return state * (1 + share * step) + velocity * (1 + share * (1 - time)) * step


def sde_std(time: Tensor, after: Tensor, scale: Tensor) -> Tensor:
    """Compute the standard deviation of the next state: ``s sqrt(-dt)``, ``s`` the ``scale``.

    Examples:
        >>> sde_std(torch.tensor(1.0), torch.tensor(0.75), torch.tensor(2.0))
        tensor(1.)
    """
    return scale * (time - after).sqrt()


def gaussian_log_prob(value: Tensor, mean: Tensor, std: Tensor) -> Tensor:
    """Compute the log-density of an isotropic Gaussian, summed over the dimensions, in nats.

    ``-1/2 |x - mu|^2 / s^2 - D log s - D/2 log(2 pi)``. ``value`` and ``mean`` are ``[..., D]``,
    ``std`` ``s`` broadcasts with them; the result is ``[...]``.

    Examples:
        >>> gaussian_log_prob(torch.zeros(2), torch.zeros(2), torch.ones(1))  # -log 2 pi
        tensor(-1.8379)
    """
    scaled = (value - mean) / std
    each = -0.5 * scaled.square() - std.log() - 0.5 * math.log(2 * math.pi)
    return each.sum(-1)


def gaussian_entropy(std: Tensor, size: int) -> Tensor:
    """Compute the entropy of a ``size``-dimensional isotropic Gaussian, ``D/2 log(2 pi e s^2)``.

    In nats, the shape of ``std`` ``s``; ``size`` is ``D``.

    Examples:
        >>> gaussian_entropy(torch.ones(()), 2)  # log(2 pi e)
        tensor(2.8379)
    """
    return size * (std.log() + 0.5 * math.log(2 * math.pi * math.e))


def bin_index(value: Tensor, low: Tensor, high: Tensor, num_bins: int) -> Tensor:
    """Return the index of the nearest of ``num_bins`` evenly spaced values, ``low`` to ``high``.

    ``k = round((n - 1) (x - low) / (high - low))``, int64, the shape of ``value``; a value outside
    goes to the nearest end. ``low`` and ``high`` broadcast with ``value``.

    Examples:
        >>> low, high = torch.tensor(-1.0), torch.tensor(1.0)
        >>> bin_index(torch.tensor([-3.0, 0.1, 1.0]), low, high, 5)
        tensor([0, 2, 4])
    """
    share = (value - low) / (high - low)
    return (share.clamp(0, 1) * (num_bins - 1)).round().long()


def bin_value(number: Tensor, low: Tensor, high: Tensor, num_bins: int) -> Tensor:
    """Return the value of a bin: ``low + (high - low) k / (n - 1)``.

    ``number`` ``k`` is from 0 to ``n - 1``; ``low`` and ``high`` broadcast with it.

    Examples:
        >>> bin_value(torch.tensor([0, 2, 4]), torch.tensor(-1.0), torch.tensor(1.0), 5)
        tensor([-1.,  0.,  1.])
    """
    return low + (high - low) * number / (num_bins - 1)
