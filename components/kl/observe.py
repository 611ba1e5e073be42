"""Measurement of the KL of every rollout batch for the controller of a KL loss."""

from __future__ import annotations

import torch
from tensordict import TensorDict
from torch import Tensor

from rlcomp.component import Component
from rlcomp.functional.kl import Value, kl_estimate
from rlcomp.interfaces.kl_controller import KLController
from rlcomp.metrics import record


class KLObserver(Component):
    """Stage that updates a KL controller once per rollout batch with the KL to the reference.

    The coefficient is used, then updated: the KL of this batch is passed to the controller when the
    next batch arrives, so that the losses of this batch still use the old coefficient.

    Reads ``response_mask``, ``old_log_probs``, ``ref_log_probs`` ``[B, T]``. Writes nothing.

    Args:
        controller: the controller of the KL loss.
        estimator: estimator of the KL's value; k1 as in the reward.

    Source:
        Ziegler et al. 2019, arXiv:1909.08593, section 2.2.
    """

    reads = ("response_mask", "old_log_probs", "ref_log_probs")

    kl: Tensor
    num_sequences: Tensor

    def __init__(self, *, controller: KLController, estimator: Value = "k1") -> None:
        super().__init__()
        self.controller = controller
        self.estimator: Value = estimator
        # NaN: no measurement yet; controllers ignore it.
        self.register_buffer("kl", torch.tensor(float("nan"), dtype=torch.float64))
        self.register_buffer("num_sequences", torch.tensor(0))

    def forward(self, batch: TensorDict) -> TensorDict:
        """Update the controller with the KL of the previous batch, then measure this one."""
        self.controller.observe(float(self.kl), int(self.num_sequences))
        record("kl/coef", self.controller.coef())
        mask = batch["response_mask"]
        kl = kl_estimate(batch["old_log_probs"], batch["ref_log_probs"], mask, self.estimator)
        self.kl.fill_(self.controller.measure(kl, mask))
        self.num_sequences.fill_(int(mask.any(1).sum()))
        return batch
