"""Advantages from returns, without a critic.

Dense rewards (``token_reward``), if a stage wrote them, are part of every return; REINFORCE and
ReMax add them to their advantage as rewards-to-go. REINFORCE's baseline ignores them.
"""

from __future__ import annotations

from typing import Literal

import torch
from tensordict import TensorDict
from torch import Tensor

from rlcomp.arguments import Fraction, PositiveFloat, Probability
from rlcomp.component import Component
from rlcomp.functional.group import (
    greedy_baseline,
    group_centred,
    squared_score_norm,
    weighted_token_advantage,
)
from rlcomp.functional.reduction import masked
from rlcomp.functional.returns import reward_to_go
from rlcomp.interfaces.advantage import broadcast, rewards_per_token, write_advantage
from rlcomp.metrics import record


class RewardToGo(Component):
    """Reward-to-go.

    ``A_t = G_t = r_t + gamma * G_{t+1}``; ``t+1`` is the next response token.

    The outcome reward is on the last response token. Tokens outside the response (tool output) are
    not steps: they neither discount nor interrupt the return.

    Reads ``reward``, ``reward_valid`` ``[B]``, ``response_mask`` ``[B, T]``. Writes ``advantage``
    ``[B, T]``, 0 for invalid rewards.

    Args:
        gamma: discount per token of the response.

    Source:
        Williams 1992; Sutton & Barto 2018, section 13.3.
    """

    reads = ("reward", "reward_valid", "response_mask")
    writes = ("advantage",)
    # ``step_end`` is not read: it tells the check of stages that the return includes the rewards of
    # steps.
    optional = ("token_reward", "step_end")

    def __init__(self, *, gamma: Probability = 1.0) -> None:
        super().__init__()
        self.gamma = gamma

    def forward(self, batch: TensorDict) -> TensorDict:
        """Write the advantage."""
        mask = batch["response_mask"] & batch["reward_valid"][:, None]
        return write_advantage(batch, reward_to_go(rewards_per_token(batch), mask, self.gamma))


class REINFORCE(Component):
    """REINFORCE advantage.

    ``A_i = R_i - b``.

    Reads ``reward``, ``reward_valid`` ``[B]``, ``response_mask`` ``[B, T]``. Writes ``advantage``
    ``[B, T]``, 0 for invalid rewards. The baseline ignores invalid rewards.

    Args:
        baseline: ``none``: b = 0. ``batch_mean``: b = mean(R) over all rows of the batch; since it
            includes the row itself, it scales the expected gradient by 1 - 1/B. ``moving``:
            exponential moving average of the means of earlier batches; 0 for the first batch.
        decay: decay of the moving average, per batch.

    Source:
        Williams 1992, "Simple statistical gradient-following algorithms", eq. 3.
    """

    reads = ("reward", "reward_valid", "response_mask")
    writes = ("advantage",)
    optional = ("token_reward",)

    average: Tensor
    seen: Tensor

    def __init__(
        self,
        *,
        baseline: Literal["none", "batch_mean", "moving"] = "batch_mean",
        decay: Fraction = 0.9,
    ) -> None:
        super().__init__()
        self.baseline = baseline
        self.decay = decay
        if baseline == "moving":
            self.register_buffer("average", torch.zeros(()))
            self.register_buffer("seen", torch.zeros((), dtype=torch.bool))

    def forward(self, batch: TensorDict) -> TensorDict:
        """Write the advantage."""
        reward, valid = batch["reward"].detach(), batch["reward_valid"]
        if self.baseline == "batch_mean":
            one_group = torch.zeros_like(valid, dtype=torch.int64)
            return broadcast(batch, group_centred(reward, one_group, valid))
        if self.baseline == "none":
            return broadcast(batch, masked(reward, valid))
        old_average = self.average.clone()
        self._update_average(reward[valid])
        return broadcast(batch, masked(reward - old_average, valid))

    def _update_average(self, reward: Tensor) -> None:
        """Update the moving average with the mean of a batch."""
        if not len(reward):
            return
        mean = reward.to(self.average).mean()
        weight = 1 - self.decay * self.seen  # 1 for the first batch: the average starts there
        self.average += weight * (mean - self.average)
        self.seen.fill_(True)


class GreedyBaseline(Component):
    """ReMax advantage: greedy-decoding baseline.

    ``A_t = R(y) - R(y_greedy) + sum_{s >= t} r_s`` with ``y_greedy`` the greedy answer to the same
    prompt and ``r`` the dense rewards, if any.

    Needs ``collector@rollout=greedy_baseline``. Greedy answers are not trained on: their
    ``response_mask`` becomes False.

    Reads ``reward``, ``reward_valid``, ``group_id``, ``greedy`` ``[B]``, ``response_mask``
    ``[B, T]``. Writes ``advantage`` ``[B, T]``: 0 for greedy answers, for invalid rewards and for
    prompts whose greedy answer has an invalid reward; ``response_mask``, False on greedy answers.
    Records ``advantage/baseline``, the mean reward of greedy answers, and of the other answers
    ``advantage/abs`` and ``advantage/zero_fraction``, both of the clipped difference
    ``R(y) - R(y_greedy)`` alone.

    Args:
        kl_credit: the dense rewards (``token_reward``, such as a KL penalty) in ``A_t``: ``to_go``
            sums the rewards of this and all later tokens; ``immediate`` takes only the reward of
            this token, as in the authors' code.
        clip: largest absolute value of ``R(y) - R(y_greedy)``, in reward units; 5 in the authors'
            code. None: no bound.

    Raises:
        ConfigError: a group has no greedy answer.

    Source:
        Li et al. 2023, arXiv:2310.10505 (ReMax), eq. 5.
    """

    keys = {
        "greedy": (
            "B",
            "bool",
            "greedy answer: a baseline, not trained on",
            {"example": "first_of_group"},
        )
    }
    reads = ("reward", "reward_valid", "group_id", "greedy", "response_mask")
    writes = ("advantage", "response_mask")
    optional = ("token_reward",)

    def __init__(
        self,
        *,
        kl_credit: Literal["to_go", "immediate"] = "to_go",
        clip: PositiveFloat | None = None,
    ) -> None:
        super().__init__()
        self.kl_credit = kl_credit
        self.clip = clip

    def forward(self, batch: TensorDict) -> TensorDict:
        """Write the advantage, and remove the greedy answers from the response mask."""
        reward, valid = batch["reward"].detach(), batch["reward_valid"]
        baseline, has_baseline = greedy_baseline(reward, batch["group_id"], valid, batch["greedy"])
        trainable = ~batch["greedy"] & valid & has_baseline
        difference = masked(masked(reward, valid) - baseline, trainable)
        if self.clip is not None:
            difference = difference.clamp(-self.clip, self.clip)
        record("advantage/baseline", baseline, where=batch["greedy"] & valid)
        record("advantage/abs", difference.abs(), where=~batch["greedy"])
        record("advantage/zero_fraction", difference == 0, where=~batch["greedy"])
        per_token = torch.where(trainable[:, None], difference[:, None] + self._dense(batch), 0)
        batch["response_mask"] = batch["response_mask"] & ~batch["greedy"][:, None]
        return write_advantage(batch, per_token)

    def _dense(self, batch: TensorDict) -> Tensor:
        """Return the part of ``A_t`` that comes from dense rewards, ``[B, T]``."""
        mask = batch["response_mask"]
        if "token_reward" not in batch.keys():
            return torch.zeros(mask.shape, device=mask.device)
        dense = masked(batch["token_reward"].detach(), mask)
        return dense if self.kl_credit == "immediate" else dense.flip(1).cumsum(1).flip(1)


class OptimalTokenBaseline(Component):
    """Optimal token baseline (OTB).

    ``A_it = G_it - sum_j W_jt G_jt / sum_j W_jt`` over the responses of the group that have a token
    at ``t``, with ``W_it = sum_{s <= t} (1 - 2 pi(a_is) + sum_v pi(v)^2)``.

    ``W`` accumulates the squared norm of the gradient of ``log pi`` with respect to the logits, a
    proxy for the gradient with respect to the parameters. This advantage needs
    ``old_log_probs=recomputed_moments``.

    Reads ``reward``, ``reward_valid``, ``group_id`` ``[B]``, ``old_log_probs``, ``squared_probs``,
    ``response_mask`` ``[B, T]``. Writes ``advantage`` ``[B, T]``: 0 for invalid rewards, and at
    positions ``t`` at which all responses of the group have equal returns or only one response has
    a token. Records ``advantage/abs``, the mean absolute advantage of a token, and
    ``advantage/zero_fraction``, the share of tokens with advantage 0.

    Source:
        Li et al. 2026, "The Optimal Token Baseline", PMLR 306, as in verl.
    """

    keys = {
        "squared_probs": (
            "B T",
            "float",
            "sum over the vocabulary of pi_old squared",
            {"example": "probability"},
        )
    }
    reads = (
        *("reward", "reward_valid", "group_id", "old_log_probs", "squared_probs"),
        "response_mask",
    )
    writes = ("advantage",)
    # ``step_end`` is not read: it tells the check of stages that the return includes the rewards of
    # steps.
    optional = ("token_reward", "step_end")
    min_group_size = 2

    def forward(self, batch: TensorDict) -> TensorDict:
        """Write the advantage."""
        mask = batch["response_mask"] & batch["reward_valid"][:, None]
        returns = rewards_per_token(batch).flip(1).cumsum(1).flip(1)
        norms = squared_score_norm(batch["old_log_probs"].detach(), batch["squared_probs"], mask)
        advantage = weighted_token_advantage(returns, norms.cumsum(1), mask, batch["group_id"])
        record("advantage/abs", advantage.abs(), where=mask)
        record("advantage/zero_fraction", advantage == 0, where=mask)
        return write_advantage(batch, advantage)
