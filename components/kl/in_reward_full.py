"""KL over the whole vocabulary, taken off the reward before the baseline."""

from __future__ import annotations

import torch
from tensordict import TensorDict

from rlcomp.component import Component
from rlcomp.functional.kl import kl_full
from rlcomp.interfaces.kl_controller import KLController
from rlcomp.metrics import record
from rlcomp.model.language_model import LanguageModel


class KLInRewardFull(Component):
    """``reward - beta * sum_t KL_t``, each the exact KL of the next token's distribution.

    It lacks the noise of an estimate from the taken token, but charges a token only for the
    distribution it came from: what a response leads into is in the sum all the same. The policy's
    distribution is computed here; memory: three times ``B * T * V`` numbers with the reference's.

    Reads ``reward`` ``[B]``, ``tokens``, ``attention_mask``, ``response_mask`` ``[B, T]``,
    ``ref_log_distribution`` ``[B, T, V]``. Writes ``reward``.

    Args:
        policy: before its update, as it sampled.
        controller: says what a nat costs, and is told what was measured.

    Source:
        Ziegler et al. 2019, arXiv:1909.08593, eq. 2, with the expectation over the token taken.
    """

    reads = ("reward", "tokens", "attention_mask", "response_mask", "ref_log_distribution")
    writes = ("reward",)
    optional = ("greedy",)
    must_reach = ("reward",)
    exclusive = "kl"

    policy: LanguageModel

    def __init__(self, *, policy: LanguageModel, controller: KLController) -> None:
        super().__init__()
        # Past nn.Module: the policy's tensors belong to the policy, in checkpoints and optimizers.
        object.__setattr__(self, "policy", policy)
        self.controller = controller

    def forward(self, batch: TensorDict) -> TensorDict:
        """Write the shaped reward."""
        mask = batch["response_mask"]
        with torch.no_grad():
            own = self.policy.log_distribution(batch)
        kl = kl_full(own, batch["ref_log_distribution"], mask)
        record("kl/in_reward", kl, where=mask)
        batch["reward"] = batch["reward"] - self.controller.price(kl, batch)
        return batch
