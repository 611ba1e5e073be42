"""Teacher as the reference: another policy with the student's tokenizer."""

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
    """Teacher as the reference policy: another node of the run with its current weights.

    The teacher may have any size. Scoring has no gradient. Only a learner that names the teacher
    trains it; in a phase without such a learner it is frozen.

    Reads ``tokens``, ``attention_mask``, ``response_mask`` ``[B, T]``, and ``rollout_log_probs``
    ``[B, T]`` if it is there.

    Writes ``ref_log_probs`` ``[B, T]``, nats, without gradient, under the teacher's decoding.

    Records ``teacher/tokens``, the response tokens it scored; and ``kl/reference`` if the rows are
    rollouts: the mean of ``rollout_log_probs - ref_log_probs``, nats per token (the estimator k1).

    Args:
        policy: the student.
        teacher: the teacher; scores the student's responses.

    Raises:
        ConfigError: student and teacher number their tokens differently.
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
        # Not a submodule: the teacher's node owns the tensors.
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
