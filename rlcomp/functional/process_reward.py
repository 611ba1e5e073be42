"""Step and token rewards: GRPO with process supervision, PRIME, aggregation, shaping."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from rlcomp.functional.group import group_standardised, leave_one_out
from rlcomp.functional.group_statistics import Groups
from rlcomp.functional.reduction import masked
from rlcomp.functional.returns import next_value, reward_to_go

Aggregation = Literal["min", "prod", "last", "mean"]


def step_advantage(
    token_reward: Tensor, step_end: Tensor, group_id: Tensor, valid: Tensor, epsilon: float
) -> Tensor:
    """Compute GRPO's process-supervision advantage (DeepSeekMath).

    ``A_it = sum_{j: end(j) >= t} (r_ij - mean_g(r)) / (std_g(r) + epsilon)``; mean and unbiased std
    are over the step rewards of all responses of the group. ``token_reward`` has the reward of a
    step on its last token, marked by ``step_end``.

    Shape ``[B, T]``, dimensionless; 0 for invalid rows, in groups with fewer than two answers with
    a rewarded step, and if all steps of the group have the same reward. There is no mask: a token
    of the prompt has the sum of all steps.

    Source: Shao et al. 2024, arXiv:2402.03300, section 4.1.3 (process supervision).

    Examples:
        >>> reward, end = torch.tensor([[1.0, 0.0], [0.0, 0.0]]), torch.tensor([[True], [False]])
        >>> end = torch.cat([end, torch.ones(2, 1, dtype=torch.bool)], 1)
        >>> group, valid = torch.zeros(2, dtype=torch.int64), torch.ones(2, dtype=torch.bool)
        >>> step_advantage(reward, end, group, valid, 1e-12)
        tensor([[ 0.5774, -0.5774],
                [-0.5774, -0.5774]])
    """
    judged = valid.bool() & step_end.any(1)
    # Number of judged answers in the row's group; the rewards do not matter for it.
    peers = Groups(torch.zeros_like(group_id), group_id, judged).count.to(group_id.device)
    ends = step_end & (judged & (peers >= 2))[:, None]
    rows = ends.nonzero()[:, 0]
    all_steps = torch.ones_like(rows, dtype=torch.bool)
    scores = group_standardised(token_reward[ends], group_id[rows], all_steps, epsilon)
    steps = scores.new_zeros(ends.shape).masked_scatter(ends, scores)
    return steps.flip(1).cumsum(1).flip(1)


def implicit_process_advantage(
    token_reward: Tensor, mask: Tensor, group_id: Tensor, valid: Tensor, gamma: float
) -> Tensor:
    """Compute PRIME's return of token rewards over a leave-one-out baseline.

    ``A_it = sum_{s >= t} gamma^(s - t) (r_is - b_i)``. ``b_i`` is the mean, over the other valid
    answers of the group, of their mean token reward; in a group of one, the answer's own mean. The
    result is ``[B, T]``, in reward units; 0 for invalid rows and outside the mask.

    Source: Cui et al. 2025 (PRIME), arXiv:2502.01456, first term of eq. 6.

    Examples:
        >>> reward, mask = torch.tensor([[1.0, 3.0], [2.0, 0.0]]), torch.ones(2, 2).bool()
        >>> group, valid = torch.zeros(2, dtype=torch.int64), torch.ones(2).bool()
        >>> implicit_process_advantage(reward, mask, group, valid, 1.0)  # baselines 1 and 2
        tensor([[ 2.,  2.],
                [-2., -2.]])
    """
    counted = mask & valid[:, None]
    reward = masked(token_reward, counted)
    mean = reward.sum(1) / counted.sum(1).clamp(min=1)
    baseline = mean - leave_one_out(mean, group_id, valid & counted.any(1))
    return reward_to_go(reward - masked(baseline[:, None], counted), counted, gamma)


def aggregate_steps(log_prob: Tensor, step_end: Tensor, by: Aggregation) -> Tensor:
    """Aggregate the scores of an answer's steps into one score, ``[B]``; 0 without a step.

    ``min_k p_k``, ``prod_k p_k``, ``p_K`` or ``mean_k p_k``, from ``log p_k`` at the last token of
    each step. ``log_prob`` and ``step_end`` (bool) are ``[B, T]``, ``log_prob`` in nats; the score
    is a probability. ``prod <= min <= mean``; a step with probability 1 changes neither ``prod``
    nor ``min``.

    Source: Lightman et al. 2023, arXiv:2305.20050, appendix F (minimum, product); Wang et al. 2023
    (Math-Shepherd), arXiv:2312.08935, section 3.4 (minimum).

    Examples:
        >>> log_prob = torch.tensor([[0.5, 0.9, 0.8]]).log()
        >>> ends = torch.tensor([[True, False, True]])
        >>> [round(float(aggregate_steps(log_prob, ends, by)), 2) for by in ("min", "prod", "mean")]
        [0.5, 0.4, 0.65]
    """
    inside = masked(log_prob, step_end)
    if by == "min":
        score = inside.amin(1).exp()
    elif by == "prod":
        score = inside.sum(1).exp()
    elif by == "last":
        last = step_end & (step_end.flip(1).cumsum(1).flip(1) == 1)
        score = masked(inside, last).sum(1).exp()
    else:
        score = masked(log_prob.exp(), step_end).sum(1) / step_end.sum(1).clamp(min=1)
    return masked(score, step_end.any(1))


def potential_shaping(potential: Tensor, mask: Tensor, gamma: float) -> Tensor:
    """Compute potential-based shaping, ``F_t = gamma Phi(s_{t+1}) - Phi(s_t)``; ``Phi`` ends at 0.

    ``potential`` ``[B, T]`` is ``Phi`` of the state before the token, in reward units; ``s_{t+1}``
    is the next step inside the mask. The result is ``[B, T]``, 0 outside the mask. The sum
    telescopes to ``sum_t gamma^t F_t = -Phi(s_0)``. All answers to a prompt share this constant, so
    that neither policies nor answers of a group change their order.

    Source: Ng, Harada, Russell 1999, "Policy invariance under reward transformations", theorem 1;
    episodes: Grzes 2017, "Reward shaping in episodic reinforcement learning".

    Examples:
        >>> mask = torch.tensor([[False, True, True, True]])
        >>> potential_shaping(torch.tensor([[9.0, 0.5, 0.25, 1.0]]), mask, 1.0)
        tensor([[ 0.0000, -0.2500,  0.7500, -1.0000]])
    """
    inside = masked(potential, mask)
    return masked(gamma * next_value(inside, mask) - inside, mask)
