"""V-trace (IMPALA)."""

from __future__ import annotations

from torch import Tensor

from rlcomp.functional.linear_recurrence import accumulate, following, inside
from rlcomp.functional.masked import masked


def vtrace(
    rewards: Tensor,
    value: Tensor,
    ratio: Tensor,
    mask: Tensor,
    gamma: float,
    rho_max: float,
    c_max: float,
    last_value: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Compute V-trace advantages and returns (IMPALA).

    ``vs_t = V_t + rho_t (r_t + gamma * V_{t+1} - V_t) + gamma * c_t (vs_{t+1} - V_{t+1})`` with
    ``rho_t = min(rho_max, ratio_t)``, ``c_t = min(c_max, ratio_t)``.

    On-policy, with both caps at 1 or more, ``vs`` is the discounted return.

    Args:
        rewards: shape ``[B, T]``, in reward units.
        value: value of the state before the token, shape ``[B, T]``, in reward units.
        ratio: probability under the learning policy over that under the sampling policy, ``[B,
            T]``.
        mask: shape ``[B, T]``, the steps of the episode; may have holes.
        gamma: discount per step inside the mask.
        rho_max: cap of the weight of a step; it decides which policy's value ``vs`` is.
        c_max: cap of the weight of later steps; it decides how fast ``vs`` gets there.
        last_value: value of the state after the last step, shape ``[B]``; None if episodes end
            there.

    Returns:
        The advantage ``rho_t * (r_t + gamma * vs_next - V_t)`` and the returns ``vs``, both of
        shape ``[B, T]``, in reward units, 0 outside the mask.

    Raises:
        ShapeError: the tensors differ in shape.
        NumericalError: an entry inside the mask is not finite.

    Source:
        Espeholt et al. 2018, arXiv:1802.01561, eq. 1 and section 4.2.

    Examples:
        >>> import torch
        >>> mask, value = torch.ones(1, 2).bool(), torch.tensor([[0.5, 0.5]])
        >>> rewards, ratio = torch.tensor([[0.0, 1.0]]), torch.tensor([[0.5, 2.0]])
        >>> vtrace(rewards, value, ratio, mask, gamma=1.0, rho_max=1.0, c_max=1.0)
        (tensor([[0.2500, 0.5000]]), tensor([[0.7500, 1.0000]]))
    """
    mask = mask.bool()
    rewards, value = inside("rewards", rewards, mask), inside("value", value, mask)
    ratio = inside("ratio", ratio, mask)
    rho, trace = ratio.clamp(max=rho_max), ratio.clamp(max=c_max)
    error = rho * (rewards + gamma * following(value, mask, last_value) - value)
    returns = value + accumulate(error, gamma * trace, mask)
    advantage = rho * (rewards + gamma * following(returns, mask, last_value) - value)
    return masked(advantage, mask), returns
