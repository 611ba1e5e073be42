"""Advantages from process rewards."""

from __future__ import annotations

import torch
from tensordict import TensorDict

from rlcomp.arguments import NonNegativeFloat, PositiveFloat, Probability
from rlcomp.component import Component
from rlcomp.functional.group import leave_one_out
from rlcomp.functional.process_reward import implicit_process_advantage, step_advantage
from rlcomp.interfaces.advantage import write_advantage
from rlcomp.metrics import record


class ProcessSupervision(Component):
    """GRPO advantage with process supervision (DeepSeekMath).

    ``A_it = sum_{j: end(j) >= t} (r_ij - mean_g(r)) / (std_g(r) + eps)``; mean and unbiased std
    over the step rewards of all responses of the group.

    The outcome ``reward`` is not used. Put the KL penalty in the loss (``kl=in_loss``): a penalty
    in ``token_reward`` would count as a step reward.

    Reads ``reward_valid``, ``group_id`` ``[B]``, ``token_reward``, ``step_end``, ``response_mask``
    ``[B, T]``. Writes ``advantage`` ``[B, T]``: 0 for invalid rewards, in groups with fewer than
    two answers that have a step, in groups of equal step rewards, and after the last step. Records
    ``advantage/abs``, the mean absolute advantage of a token, and ``advantage/zero_fraction``, the
    share of tokens with advantage 0.

    Args:
        epsilon: eps, in reward units.

    Source:
        Shao et al. 2024, arXiv:2402.03300, section 4.1.3.
    """

    reads = ("reward_valid", "group_id", "token_reward", "step_end", "response_mask")
    writes = ("advantage",)
    min_group_size = 2

    def __init__(self, *, epsilon: PositiveFloat = 1e-6) -> None:
        super().__init__()
        self.epsilon = epsilon

    def forward(self, batch: TensorDict) -> TensorDict:
        """Write the advantage."""
        mask = batch["response_mask"]
        advantage = step_advantage(
            batch["token_reward"],
            batch["step_end"] & mask,
            batch["group_id"],
            batch["reward_valid"],
            self.epsilon,
        )
        record("advantage/abs", advantage.abs(), where=mask)
        record("advantage/zero_fraction", advantage == 0, where=mask)
        return write_advantage(batch, advantage)


class PRIME(Component):
    """PRIME advantage: token rewards and outcome, each with its own leave-one-out baseline.

    ``A_it = c sum_{s >= t} gamma^(s - t) (r_is - mean_{j != i} mean_u r_ju)
    + R_i - mean_{j != i} R_j``.

    Reads ``reward``, ``reward_valid``, ``group_id`` ``[B]``, ``response_mask`` ``[B, T]``, and
    ``token_reward`` ``[B, T]`` if present; without it, the advantage is RLOO's. Writes
    ``advantage`` ``[B, T]``, 0 for invalid rewards. Records ``advantage/process`` and
    ``advantage/outcome``, the mean absolute values of the two terms.

    Args:
        process_coef: c, weight of the token rewards; 0 is RLOO.
        gamma: discount per token of the response.

    Source:
        Cui et al. 2025 (PRIME), arXiv:2502.01456, eq. 6; there c = 1 and gamma = 1.
    """

    reads = ("reward", "reward_valid", "group_id", "response_mask")
    writes = ("advantage",)
    optional = ("token_reward",)
    min_group_size = 2

    def __init__(self, *, process_coef: NonNegativeFloat = 1.0, gamma: Probability = 1.0) -> None:
        super().__init__()
        self.process_coef = process_coef
        self.gamma = gamma

    def forward(self, batch: TensorDict) -> TensorDict:
        """Write the advantage."""
        mask, group, valid = batch["response_mask"], batch["group_id"], batch["reward_valid"]
        process = torch.zeros(mask.shape, device=mask.device)
        if "token_reward" in batch.keys():
            rewards = batch["token_reward"].detach()
            process = implicit_process_advantage(rewards, mask, group, valid, self.gamma)
            process = self.process_coef * process
        outcome = leave_one_out(batch["reward"], group, valid)[:, None].expand(mask.shape)
        counted = mask & valid[:, None]
        record("advantage/process", process.abs(), where=counted)
        record("advantage/outcome", outcome.abs(), where=counted)
        return write_advantage(batch, process + outcome)
