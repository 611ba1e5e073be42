"""PRIME's implicit process rewards: token rewards of a model trained on outcomes."""

from __future__ import annotations

import torch
from tensordict import TensorDict
from torch import Tensor

from rlcomp.arguments import PositiveFloat
from rlcomp.component import Component
from rlcomp.functional.masked import masked
from rlcomp.interfaces.policy import Policy
from rlcomp.metrics import record


class ImplicitProcess(Component):
    """Implicit process reward: ``r_t <- r_t + beta (log pi_phi(a_t) - log pi_ref(a_t))``.

    ``pi_phi`` is trained on outcomes (``loss=implicit_outcome``). Then the sum of its log-ratios is
    the reward of the answer, and each term is the advantage of its token relative to the reference.
    It is used with its current weights, without gradient. If it is trained after this stage, it has
    not seen these answers.

    Reads ``tokens``, ``attention_mask``, ``response_mask``, ``ref_log_probs`` ``[B, T]``,
    ``reward_valid`` ``[B]``; if they are there ``token_reward`` ``[B, T]`` and ``correct``
    ``[B]``. Writes ``token_reward``.

    Records ``implicit_reward/token``, mean absolute reward of a token; ``implicit_reward/auc``:
    among pairs of a right and a wrong answer of the batch, the share whose right one has the higher
    sum (1/2 by chance).

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

    def __init__(self, *, scorer: Policy, beta: PositiveFloat = 0.05) -> None:
        super().__init__()
        # Not a submodule: the node that is trained owns the tensors.
        object.__setattr__(self, "scorer", scorer)
        self.beta = beta

    scorer: Policy

    def forward(self, batch: TensorDict) -> TensorDict:
        """Write the rewards of the tokens."""
        mask, valid = batch["response_mask"], batch["reward_valid"]
        with torch.no_grad():
            ratio = self.scorer.log_probs(batch) - batch["ref_log_probs"]
        reward = masked(self.beta * ratio, mask)
        record("implicit_reward/token", reward.abs(), where=mask & valid[:, None])
        if "correct" in batch.keys():
            self._record(reward.sum(1), batch["correct"], valid & mask.any(1))
        if "token_reward" in batch.keys():
            reward = reward + masked(batch["token_reward"].detach(), mask)
        batch["token_reward"] = reward
        return batch

    def _record(self, score: Tensor, correct: Tensor, valid: Tensor) -> None:
        right, wrong = score[correct & valid], score[~correct & valid]
        lead = right[:, None] - wrong
        record("implicit_reward/auc", torch.where(lead == 0, 0.5, (lead > 0).to(lead.dtype)))
