"""Collector of samples of a flow; the positions of a row are the steps of the flow's SDE."""

from __future__ import annotations

import torch
from tensordict import TensorDict

from rlcomp.arguments import PositiveInt
from rlcomp.component import Component
from rlcomp.model.flow_policy import FlowPolicy
from rlcomp.seed import new_generator, next_request


class FlowSamples(Component):
    """Collector of groups of samples of a flow, drawn by its SDE.

    Reads nothing. Writes a new batch of ``B = num_groups * group_size`` rows: ``tokens`` (the
    number of the step), ``attention_mask``, ``response_mask`` (all true), ``rollout_log_probs``,
    ``policy_version`` ``[B, T]``, ``flow_state``, ``flow_next`` ``[B, T, D]``, ``sample``
    ``[B, D]``, ``group_id`` ``[B]``.

    Args:
        policy: the flow.
        num_groups: groups per batch.
        group_size: samples per group (``G``).

    Source:
        Liu et al. 2025, arXiv:2505.05470 (Flow-GRPO).
    """

    keys = {
        "flow_state": ("B T D", "float", "where a step of a flow starts"),
        "flow_next": ("B T D", "float", "where the step leads"),
        "sample": ("B D", "float", "point of the data, or end point of a flow"),
    }
    writes = (
        *("tokens", "attention_mask", "response_mask", "rollout_log_probs", "policy_version"),
        *("flow_state", "flow_next", "sample", "group_id"),
    )
    fresh = True

    def __init__(
        self, *, policy: FlowPolicy, num_groups: PositiveInt = 1, group_size: PositiveInt
    ) -> None:
        super().__init__()
        self.policy = policy
        self.num_groups = num_groups
        self.group_size = group_size
        self.generator = new_generator()

    def forward(self, batch: TensorDict) -> TensorDict:
        """Return a new batch of samples; the incoming batch is ignored."""
        rows, steps = self.num_groups * self.group_size, self.policy.num_steps
        states, log_probs = self.policy.draw(rows, self.generator)
        next_request(self.generator)
        mask = torch.ones(rows, steps, dtype=torch.bool)
        return TensorDict(
            {
                "tokens": torch.arange(steps).expand(rows, steps).clone(),
                "attention_mask": mask,
                "response_mask": mask.clone(),
                "rollout_log_probs": log_probs,
                "policy_version": torch.full((rows, steps), self.policy.version),
                "flow_state": states[:, :-1],
                "flow_next": states[:, 1:],
                "sample": states[:, -1],
                "group_id": torch.arange(self.num_groups).repeat_interleave(self.group_size),
            },
            batch_size=[rows],
        )
