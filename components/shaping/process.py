"""Shaping by scores of steps and of states."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import torch
from tensordict import TensorDict
from torch import Tensor

from rlcomp.arguments import NonNegativeFloat, PositiveFloat, Probability
from rlcomp.component import Component
from rlcomp.functional.process_reward import potential_shaping
from rlcomp.functional.reduction import masked
from rlcomp.interfaces.policy import Policy
from rlcomp.interfaces.stages import add_token_reward
from rlcomp.keys import Key, OwnKey
from rlcomp.metrics import record


class StepRewards(Component):
    """Step rewards: ``r_t <- r_t + c p_k``, the score of step k at the token that ends it.

    A sum of positive scores grows with the number of steps. ``advantage=process`` standardises the
    scores, and ``shaping=potential`` rewards differences of scores instead.

    Reads ``step_score``, ``step_end``, ``response_mask`` ``[B, T]``, and ``token_reward`` if
    present. Writes ``token_reward`` ``[B, T]``. Records ``reward/step``, the mean of ``c p_k`` over
    the steps.

    Args:
        coef: c, weight of the scores, in reward units.

    Source:
        Shao et al. 2024, arXiv:2402.03300, section 4.1.3.
    """

    keys: ClassVar[Mapping[Key, OwnKey]] = {
        "step_score": (
            "B T",
            "float",
            "p_k: probability that the step ending at this token is right",
            {"example": "probability"},
        ),
    }
    reads = ("step_score", "step_end", "response_mask")
    optional = ("token_reward",)
    writes = ("token_reward",)
    must_reach = ("token_reward",)

    def __init__(self, *, coef: NonNegativeFloat = 1.0) -> None:
        super().__init__()
        self.coef = coef

    def forward(self, batch: TensorDict) -> TensorDict:
        """Write the rewards of the tokens."""
        mask = batch["response_mask"]
        reward = self.coef * masked(batch["step_score"].detach(), batch["step_end"] & mask)
        record("reward/step", reward, where=batch["step_end"] & mask)
        return add_token_reward(batch, reward)


class ImplicitProcessReward(Component):
    """Implicit process reward: ``r_t <- r_t + beta (log pi_phi(a_t) - log pi_ref(a_t))``.

    ``pi_phi`` is trained on outcomes (``loss=implicit_outcome``). Then the sum of its log-ratios is
    the reward of the answer, and each term is the advantage of its token relative to the reference.
    This stage uses the current weights of ``pi_phi``, without gradient. If a later stage trains
    ``pi_phi``, the answers of this batch are held out.

    Reads ``tokens``, ``attention_mask``, ``response_mask``, ``ref_log_probs`` ``[B, T]``,
    ``reward_valid`` ``[B]``; if present ``token_reward`` ``[B, T]`` and ``correct``
    ``[B]``. Writes ``token_reward``.

    Records ``implicit_reward/token``, the mean absolute reward of a token, and
    ``implicit_reward/auc``: among pairs of a right and a wrong answer of the batch, the share in
    which the right answer has the higher sum (1/2 by chance).

    Args:
        scorer: the model pi_phi.
        beta: scale of the rewards, in reward units per nat.

    Source:
        Cui et al. 2025 (PRIME), arXiv:2502.01456, eq. 3; Yuan et al. 2024, arXiv:2412.01981,
        proposition 3.1.
    """

    reads = ("tokens", "attention_mask", "response_mask", "ref_log_probs", "reward_valid")
    optional = ("token_reward", "correct")
    writes = ("token_reward",)
    must_reach = ("token_reward",)

    scorer: Policy

    def __init__(self, *, scorer: Policy, beta: PositiveFloat = 0.05) -> None:
        super().__init__()
        # Not a submodule: the node that is trained owns the tensors.
        object.__setattr__(self, "scorer", scorer)
        self.beta = beta

    def forward(self, batch: TensorDict) -> TensorDict:
        """Write the rewards of the tokens."""
        mask, valid = batch["response_mask"], batch["reward_valid"]
        with torch.no_grad():
            ratio = self.scorer.log_probs(batch) - batch["ref_log_probs"]
        reward = masked(self.beta * ratio, mask)
        record("implicit_reward/token", reward.abs(), where=mask & valid[:, None])
        if "correct" in batch.keys():
            self._record_auc(reward.sum(1), batch["correct"], valid & mask.any(1))
        return add_token_reward(batch, reward)

    def _record_auc(self, score: Tensor, correct: Tensor, valid: Tensor) -> None:
        """Record the AUC of the answers' scores, ``[B]``."""
        right, wrong = score[correct & valid], score[~correct & valid]
        gap = right[:, None] - wrong
        record("implicit_reward/auc", torch.where(gap == 0, 0.5, (gap > 0).to(gap.dtype)))


class PotentialShaping(Component):
    """Potential-based shaping: ``r_t <- r_t + c (gamma Phi(s_{t+1}) - Phi(s_t))``.

    The discounted sum over an answer is ``-c Phi`` of its prompt. So the best policy and the order
    within a group stay the same, and credit moves to the tokens that raise the potential. This does
    not hold if ``gamma`` differs from the discount of the return, or if a critic's value follows a
    truncated answer (``advantage.bootstrap_truncated``), because Phi is 0 after every answer.

    Runs the potential. Reads ``response_mask`` ``[B, T]``, and ``token_reward`` if present.
    Writes ``token_reward`` ``[B, T]``. Records ``reward/potential_step``, the mean absolute shaping
    of a token.

    Args:
        potential: the potential; writes ``potential`` ``[B, T]``, Phi of the state before the
            token.
        coef: c, weight of the shaping.
        gamma: discount per token of the response; the discount of the return.

    Source:
        Ng, Harada, Russell 1999, "Policy invariance under reward transformations", theorem 1.
    """

    keys: ClassVar[Mapping[Key, OwnKey]] = {
        "potential": ("B T", "float", "Phi of the state before the token, in reward units"),
    }
    reads = ("response_mask",)
    optional = ("token_reward",)
    writes = ("token_reward",)
    must_reach = ("token_reward",)
    runs = ("potential",)
    contained = True

    def __init__(
        self, *, potential: Component, coef: NonNegativeFloat = 1.0, gamma: Probability = 1.0
    ) -> None:
        super().__init__()
        self.potential = potential
        self.coef = coef
        self.gamma = gamma

    def forward(self, batch: TensorDict) -> TensorDict:
        """Add the shaping to the token rewards."""
        mask = batch["response_mask"]
        phi = self.potential(batch.copy())["potential"].detach()
        reward = self.coef * potential_shaping(phi, mask, self.gamma)
        record("reward/potential_step", reward.abs(), where=mask)
        return add_token_reward(batch, reward)


class TurnPotentialShaping(Component):
    """Potential-based shaping of turns: ``r_k <- r_k + c (gamma Phi(s_{k+1}) - Phi(s_k))``.

    ``s_k`` is the state at the beginning of turn k, so that the discount counts turns. The shaping
    is added at the last sampled token of the turn. See
    :class:`~components.shaping.process.PotentialShaping`. A row must be a whole episode.

    Runs the potential. Reads ``response_mask``, ``turn_id``, ``turn_reward`` ``[B, T]``. Writes
    ``turn_reward`` ``[B, T]``. Records ``reward/potential_turn``, the mean absolute shaping of a
    turn.

    Args:
        potential: the potential; writes ``potential`` ``[B, T]``, Phi of the state before the
            token.
        coef: c, weight of the shaping.
        gamma: discount per turn; the discount of the return.

    Source:
        Ng, Harada, Russell 1999, "Policy invariance under reward transformations", theorem 1.
    """

    keys: ClassVar[Mapping[Key, OwnKey]] = {
        "potential": ("B T", "float", "Phi of the state before the token, in reward units"),
    }
    reads = ("response_mask", "turn_id", "turn_reward")
    writes = ("turn_reward",)
    runs = ("potential",)
    contained = True

    def __init__(
        self, *, potential: Component, coef: NonNegativeFloat = 1.0, gamma: Probability = 1.0
    ) -> None:
        super().__init__()
        self.potential = potential
        self.coef = coef
        self.gamma = gamma

    def forward(self, batch: TensorDict) -> TensorDict:
        """Add the shaping to the turn rewards."""
        mask = batch["response_mask"]
        first, last = turn_bounds(batch["turn_id"], mask)
        phi = self.potential(batch.copy())["potential"].detach()
        shaped = self.coef * potential_shaping(phi, first, self.gamma)
        record("reward/potential_turn", shaped.abs(), where=first)
        # First and last tokens of a row are in the same order, so that they match by turn.
        at_last = torch.zeros_like(shaped).masked_scatter(last, shaped[first])
        batch["turn_reward"] = masked(batch["turn_reward"].detach(), mask) + at_last
        return batch


def turn_bounds(turn_id: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Return masks of the first and the last sampled token of each turn, ``[B, T]`` each.

    Args:
        turn_id: turn of each token, int64, shape ``[B, T]``; rises along a row.
        mask: sampled tokens, bool, shape ``[B, T]``.

    Examples:
        >>> ids, mask = torch.tensor([[-1, 0, 0, -1, 1]]), torch.tensor([[0, 1, 1, 0, 1]]).bool()
        >>> first, last = turn_bounds(ids, mask)
        >>> first.int(), last.int()
        (tensor([[0, 1, 0, 0, 1]], dtype=torch.int32), tensor([[0, 0, 1, 0, 1]], dtype=torch.int32))
    """
    # A token is the first of its turn if all earlier turns are smaller, and the last if all later
    # turns are larger; tokens outside the mask count as -1 before it and as the maximum after it.
    turn = torch.where(mask, turn_id, -1)
    before = turn.cummax(1).values.roll(1, 1)
    before[:, 0] = -1
    first = mask & (turn > before)
    later = torch.where(mask, turn_id, torch.iinfo(turn_id.dtype).max)
    after = later.flip(1).cummin(1).values.flip(1).roll(-1, 1)
    after[:, -1] = torch.iinfo(turn_id.dtype).max
    return first, mask & (turn < after)
