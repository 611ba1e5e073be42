"""Advantages with a critic.

The reward ``r_t`` of a token is its dense reward (``token_reward``, if a stage wrote it), plus
``reward`` at the last response token. Turns have other rewards: see :class:`TurnGAE`.
"""

from __future__ import annotations

import torch
from tensordict import TensorDict
from torch import Tensor

from rlcomp.arguments import PositiveFloat, Probability
from rlcomp.component import Component
from rlcomp.functional.importance import sampler_gap
from rlcomp.functional.moments import whiten
from rlcomp.functional.reduction import masked
from rlcomp.functional.returns import (
    gae,
    last_inside,
    length_adaptive_lambda,
    td_lambda_returns,
    vtrace,
)
from rlcomp.interfaces.advantage import rewards_per_token, write_advantage
from rlcomp.interfaces.turns import TurnTable
from rlcomp.metrics import record


class GAE(Component):
    """Generalised advantage estimation (GAE).

    ``A_t = delta_t + gamma * lambda * A_{t+1}`` with ``delta_t = r_t + gamma * V_{t+1} - V_t``;
    ``t+1`` is the next response token.

    Tokens outside the response (tool output) are not steps. ``returns`` is ``A + V`` before
    whitening: the TD(lambda) return.

    Reads ``reward``, ``reward_valid``, ``truncated`` ``[B]``, ``response_mask``, ``value``
    ``[B, T]``. Writes ``advantage`` and ``returns`` ``[B, T]``. For an invalid reward the advantage
    is 0 and not part of the whitening; ``returns`` is ``value`` there, so that the critic gets no
    gradient. Records ``advantage/abs``, the mean absolute advantage before whitening.

    Args:
        gamma: discount per token of the response.
        gae_lambda: lambda; 0: one-step TD error, 1: Monte-Carlo return minus value.
        whiten: whether advantages are shifted and scaled to mean 0 and variance 1 over the tokens
            of the batch.
        bootstrap_truncated: whether a value follows the last token of a response that the length
            limit truncates. The batch has no value after the last token, so ``V`` of the last
            response token is used. False: truncation is terminal, like EOS.

    Source:
        Schulman et al. 2016, arXiv:1506.02438, eq. 16; Schulman et al. 2017, arXiv:1707.06347.
    """

    reads = ("reward", "reward_valid", "response_mask", "value", "truncated")
    writes = ("advantage", "returns")
    # ``step_end`` is not read: it tells the check of stages that the return includes the rewards of
    # steps.
    optional = ("token_reward", "step_end")

    def __init__(
        self,
        *,
        gamma: Probability = 1.0,
        gae_lambda: Probability = 0.95,
        whiten: bool = True,
        bootstrap_truncated: bool = False,
    ) -> None:
        super().__init__()
        self.gamma = gamma
        self.gae_lambda = gae_lambda
        self.whiten = whiten
        self.bootstrap_truncated = bootstrap_truncated

    def forward(self, batch: TensorDict) -> TensorDict:
        """Write advantage and returns."""
        mask, value = batch["response_mask"], batch["value"].detach()
        counted = mask & batch["reward_valid"][:, None]
        rewards, last = rewards_per_token(batch), self._last_value(batch)
        advantage = gae(rewards, value, counted, self.gamma, self.gae_lambda, last)
        record("advantage/abs", advantage.abs(), where=counted)
        batch["returns"] = masked(value + advantage, mask)
        return write_advantage(batch, whiten(advantage, counted) if self.whiten else advantage)

    def _last_value(self, batch: TensorDict) -> Tensor | None:
        """Return the value after each response, ``[B]``; None if truncation is terminal."""
        if not self.bootstrap_truncated:
            return None
        last = last_inside(batch["value"].detach(), batch["response_mask"])
        return masked(last, batch["truncated"])


class VAPO(Component):
    """VAPO advantage: length-adaptive, decoupled GAE.

    ``A_t = delta_t + gamma * lambda_i * A_{t+1}`` with
    ``lambda_i = clip(1 - 1 / (alpha * n_i), 0, 1)`` and ``n_i`` response tokens; critic target
    ``G_t = r_t + gamma * G_{t+1}`` (lambda = 1).

    Reads ``reward``, ``reward_valid`` ``[B]``, ``response_mask``, ``value`` ``[B, T]``. Writes
    ``advantage`` and ``returns`` ``[B, T]``. For an invalid reward the advantage is 0 and not part
    of the whitening, and ``returns`` is ``value``. Records ``advantage/gae_lambda``, the mean
    ``lambda_i``, and ``advantage/abs``, the mean absolute advantage before whitening.

    Args:
        gamma: discount per token of the response.
        alpha: ``sum_k lambda_i^k`` is about ``alpha * n_i``; responses of at most ``1 / alpha``
            tokens get lambda 0.
        whiten: whether advantages are shifted and scaled to mean 0 and variance 1 over the tokens
            of the batch.

    Source:
        VAPO, arXiv:2504.05118, sections 4.1 and 4.2; Yuan et al. 2025, arXiv:2503.01491.
    """

    reads = ("reward", "reward_valid", "response_mask", "value")
    writes = ("advantage", "returns")
    # ``step_end`` is not read: it tells the check of stages that the return includes the rewards of
    # steps.
    optional = ("token_reward", "step_end")

    def __init__(
        self, *, gamma: Probability = 1.0, alpha: PositiveFloat = 0.05, whiten: bool = True
    ) -> None:
        super().__init__()
        self.gamma = gamma
        self.alpha = alpha
        self.whiten = whiten

    def forward(self, batch: TensorDict) -> TensorDict:
        """Write advantage and returns."""
        mask, value = batch["response_mask"], batch["value"].detach()
        rewards, counted = rewards_per_token(batch), mask & batch["reward_valid"][:, None]
        gae_lambda = length_adaptive_lambda(mask, self.alpha)
        record("advantage/gae_lambda", gae_lambda)
        advantage = gae(rewards, value, counted, self.gamma, gae_lambda)
        record("advantage/abs", advantage.abs(), where=counted)
        targets = td_lambda_returns(rewards, value, counted, self.gamma, 1.0)
        batch["returns"] = masked(torch.where(counted, targets, value), mask)
        return write_advantage(batch, whiten(advantage, counted) if self.whiten else advantage)


class VTrace(Component):
    """V-trace advantage and returns (IMPALA).

    ``A_t = rho_t (r_t + gamma * vs_{t+1} - V_t)`` and
    ``vs_t = V_t + rho_t (r_t + gamma * V_{t+1} - V_t) + gamma * c_t (vs_{t+1} - V_{t+1})`` with
    ``rho_t = min(rho_max, w_t)``, ``c_t = min(c_max, w_t)``,
    ``w_t = pi_old(a_t) / pi_rollout(a_t)``.

    The advantage contains ``rho_t`` already: do not combine it with a loss that has an importance
    weight against the sampler. With ``old_log_probs=rollout`` all weights are 1.

    Reads ``reward``, ``reward_valid`` ``[B]``, ``response_mask``, ``value``, ``old_log_probs``,
    ``rollout_log_probs`` (NaN if not recorded: ``w_t = 1``) ``[B, T]``. Writes ``advantage`` and
    ``returns`` ``[B, T]``. For an invalid reward the advantage is 0, and ``returns`` is ``value``.
    Records ``advantage/rho_capped``, the share of tokens with ``w_t > rho_max``.

    Args:
        gamma: discount per token of the response.
        rho_max: cap of ``rho_t``; it decides whose value ``vs`` estimates: without a cap the old
            policy's, with a small cap the sampling policy's.
        c_max: cap of ``c_t``, the trace coefficient.

    Source:
        Espeholt et al. 2018 (IMPALA), arXiv:1802.01561, eq. 1 and section 4.2.
    """

    reads = (
        *("reward", "reward_valid", "response_mask", "value", "old_log_probs"),
        "rollout_log_probs",
    )
    writes = ("advantage", "returns")
    # ``step_end`` is not read: it tells the check of stages that the return includes the rewards of
    # steps.
    optional = ("token_reward", "step_end")

    def __init__(
        self, *, gamma: Probability = 1.0, rho_max: PositiveFloat = 1.0, c_max: PositiveFloat = 1.0
    ) -> None:
        super().__init__()
        self.gamma = gamma
        self.rho_max = rho_max
        self.c_max = c_max

    def forward(self, batch: TensorDict) -> TensorDict:
        """Write advantage and returns."""
        mask, value = batch["response_mask"], batch["value"].detach()
        counted = mask & batch["reward_valid"][:, None]
        ratio = sampler_gap(batch["old_log_probs"], batch["rollout_log_probs"], counted).exp()
        record("advantage/rho_capped", (ratio > self.rho_max).float(), where=counted)
        rewards, caps = rewards_per_token(batch), (self.rho_max, self.c_max)
        advantage, returns = vtrace(rewards, value, ratio, counted, self.gamma, *caps)
        batch["returns"] = masked(torch.where(counted, returns, value), mask)
        return write_advantage(batch, advantage)


class TurnGAE(Component):
    """Generalised advantage estimation (GAE) over turns.

    ``A_k = sum_l (gamma lambda)^l delta_{k+l}`` with ``delta_k = r_k + gamma V_{k+1} - V_k``, where
    ``V_k`` is the critic's value before the first token of turn ``k``, 0 after the last turn
    unless ``bootstrap_truncated``. All tokens of turn ``k`` have the advantage ``A_k`` and the
    critic's target ``returns = A_k + V_k``.

    Reads ``reward``, ``reward_valid``, ``truncated``, ``group_id`` ``[B]``, ``response_mask``,
    ``value`` ``[B, T]``, and if present ``trajectory_id`` ``[B]``, ``turn_id``,
    ``turn_reward`` ``[B, T]``. Writes ``advantage`` and ``returns`` ``[B, T]``. For an invalid
    reward the advantage is 0 and ``returns`` is ``value``, so that the critic gets no gradient.

    Args:
        gamma: discount of a turn.
        gae_lambda: lambda; 0: one-step TD error, 1: the return minus the value.
        outcome: whether ``reward`` is added to ``turn_reward`` at the last turn. False if
            ``reward`` is already the sum of ``turn_reward`` (``reward=episode_return``).
        bootstrap_truncated: whether a value follows the last turn of an episode that a limit
            truncates (tokens of a turn, number of turns, context length). The batch has no value
            after the last token, so ``V`` of the last sampled token is used. False: truncation is
            terminal, like an end of the environment.

    Source:
        Schulman et al. 2016, arXiv:1506.02438, eq. 16, over turns.
    """

    reads = ("reward", "reward_valid", "truncated", "group_id", "response_mask", "value")
    optional = ("trajectory_id", "turn_id", "turn_reward")
    exclusive = "turn_reward"
    exclusive_if = "outcome"
    writes = ("advantage", "returns")

    def __init__(
        self,
        *,
        gamma: Probability = 1.0,
        gae_lambda: Probability = 1.0,
        outcome: bool = True,
        bootstrap_truncated: bool = False,
    ) -> None:
        super().__init__()
        self.gamma = gamma
        self.gae_lambda = gae_lambda
        self.outcome = outcome
        self.bootstrap_truncated = bootstrap_truncated

    def forward(self, batch: TensorDict) -> TensorDict:
        """Write advantage and returns."""
        table, value = TurnTable(batch), batch["value"].detach()
        values, rewards = table.first_tokens(value), table.rewards(outcome=self.outcome)
        last = table.last_tokens(value) if self.bootstrap_truncated else None
        if last is not None:
            last = torch.where(table.any_row(batch["truncated"]), last, torch.zeros_like(last))
        advantage = gae(rewards, values, table.counted, self.gamma, self.gae_lambda, last)
        returns = table.to_tokens(advantage + values)
        valid = batch["reward_valid"][:, None]
        batch["returns"] = masked(torch.where(valid, returns, value), batch["response_mask"])
        return write_advantage(batch, table.to_tokens(advantage))
