"""Teacher: another policy as the reference, with the student's tokenizer."""

from __future__ import annotations

from typing import ClassVar

import torch
from tensordict import TensorDict

from rlcomp.component import Component
from rlcomp.errors import ConfigError
from rlcomp.interfaces.policy import Policy
from rlcomp.keys import Key
from rlcomp.metrics import record, record_total


class Teacher(Component):
    """Teacher as the reference policy: another node of the run, of any size, as it is now.

    Scoring has no gradient, and nobody trains the teacher but a learner that names it: in a phase
    without one it is frozen.

    Reads ``tokens``, ``attention_mask``, ``response_mask`` ``[B, T]``, and ``rollout_log_probs``
    ``[B, T]`` where it is there.

    Writes ``ref_log_probs`` ``[B, T]``, nats, without gradient, under the teacher's decoding.

    Records ``teacher/tokens``, response tokens it scored; and ``kl/reference``, where the rows are
    rollouts: mean of ``rollout_log_probs - ref_log_probs``, nats a token (the estimator k1).

    Args:
        policy: the student.
        teacher: scores the student's responses.

    Raises:
        ConfigError: the two number their tokens otherwise.
    """

    reads = ("tokens", "attention_mask", "response_mask")
    optional = ("rollout_log_probs", "sampling_mask")
    writes: ClassVar[tuple[Key, ...]] = ("ref_log_probs",)

    teacher: Policy

    def __init__(self, *, policy: Policy, teacher: Policy) -> None:
        super().__init__()
        if policy.tokenizer.get_vocab() != teacher.tokenizer.get_vocab():
            raise ConfigError(
                "reference.teacher has another tokenizer than the policy: choose a teacher with "
                "the same one, or reference=teacher_by_spans with advantage=distilled"
            )
        # Past nn.Module: the teacher's tensors belong to the node that is the teacher.
        object.__setattr__(self, "teacher", teacher)

    def forward(self, batch: TensorDict) -> TensorDict:
        """Score the response tokens."""
        with torch.no_grad():
            batch = self._scored(batch)
        mask = batch["response_mask"]
        record_total("teacher/tokens", float(mask.sum()))
        if "rollout_log_probs" in batch.keys():
            distance = batch["rollout_log_probs"] - batch["ref_log_probs"]
            record("kl/reference", distance, where=mask)
        return batch

    def _scored(self, batch: TensorDict) -> TensorDict:
        batch["ref_log_probs"] = self.teacher.log_probs(batch.exclude("routed_experts"))
        return batch
