"""Teacher with full next-token distributions."""

from __future__ import annotations

from typing import ClassVar

from tensordict import TensorDict

from components.reference.teacher import Teacher
from rlcomp.interfaces.policy import FullDistributionPolicy
from rlcomp.keys import Key


class TeacherFull(Teacher):
    """Teacher with full next-token distributions, for a divergence over the vocabulary.

    Memory: ``ref_log_distribution`` holds ``B * T * V`` numbers during the whole step.

    Reads ``tokens``, ``attention_mask``, ``response_mask`` ``[B, T]``, and ``rollout_log_probs``
    ``[B, T]`` if it is there.

    Writes ``ref_log_probs`` ``[B, T]`` and ``ref_log_distribution`` ``[B, T, V]``, nats, without
    gradient; the latter at the teacher's temperature, before any filter.

    Args:
        policy: the student.
        teacher: the teacher; scores the student's responses.
    """

    writes: ClassVar[tuple[Key, ...]] = ("ref_log_probs", "ref_log_distribution")

    teacher: FullDistributionPolicy

    def __init__(self, *, policy: FullDistributionPolicy, teacher: FullDistributionPolicy) -> None:
        super().__init__(policy=policy, teacher=teacher)

    def _scored(self, batch: TensorDict) -> TensorDict:
        batch = super()._scored(batch)
        batch["ref_log_distribution"] = self.teacher.log_distribution(
            batch.exclude("routed_experts")
        )
        return batch
