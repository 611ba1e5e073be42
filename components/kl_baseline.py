"""KTO's reference point: the KL of policy and reference, estimated on mismatched answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import torch
from tensordict import TensorDict
from torch import Tensor

from rlcomp.component import Component
from rlcomp.errors import ConfigError
from rlcomp.functional.reduction import masked
from rlcomp.interfaces.policy import Policy
from rlcomp.interfaces.prompt import Demonstration
from rlcomp.keys import Key, OwnKey
from rlcomp.model.auxiliary_forward import muted_eval
from rlcomp.run.check_flow import built_flow
from rlcomp.text.rows import demonstration_rows


class MismatchedKL(Component):
    """Stage that estimates KTO's reference point from answers to other prompts.

    ``z0 = max(0, mean_i log(pi(y_j | x_i) / pi_ref(y_j | x_i)))`` with ``j`` the next row of
    another group. ``z0`` has no gradient and uses the weights before the learner's update.

    Reads ``tokens``, ``attention_mask``, ``response_mask`` ``[B, T]``, ``group_id`` ``[B]``. Writes
    ``kl_baseline`` ``[B]``, nats, the same in all rows. If no loss of the learner reads it, it is 0
    and is not computed.

    Args:
        policy: the policy; scores the mismatched rows.
        reference: the reference; writes their ``ref_log_probs``.
        learner: the learner; its losses determine whether the reference point is needed.

    Raises:
        ConfigError: a loss reads ``kl_baseline`` and there is no reference, or (when called) all
            rows answer one prompt.

    Source:
        Ethayarajh et al. 2024 (KTO), arXiv:2402.01306, section 4.1.
    """

    keys: ClassVar[Mapping[Key, OwnKey]] = {
        "kl_baseline": (
            "B",
            "float",
            "z0: log-ratio of answers to other prompts, at least 0; nats, the same in all rows",
            {"example": "same_in_all_rows"},
        ),
    }
    reads = ("tokens", "attention_mask", "response_mask", "group_id")
    writes = ("kl_baseline",)

    policy: Policy
    reference: Component

    def __init__(self, *, policy: Policy, reference: Component, learner: Component) -> None:
        super().__init__()
        # Not submodules: each owns its tensors in checkpoints and optimizers.
        object.__setattr__(self, "policy", policy)
        object.__setattr__(self, "reference", reference)
        self.is_read = "kl_baseline" in built_flow(learner).reads
        if self.is_read and "ref_log_probs" not in reference.writes:
            raise ConfigError(
                f"kl_baseline.reference is a {type(reference).__name__}, which writes no "
                "ref_log_probs, but a loss reads 'kl_baseline': set reference=frozen, or a loss "
                "without a reference (loss=simpo)"
            )

    def forward(self, batch: TensorDict) -> TensorDict:
        """Write the reference point."""
        baseline = torch.zeros((), device=batch["tokens"].device)
        if self.is_read:
            rows = self._mismatched(batch).to(self.policy.device)
            with torch.no_grad(), muted_eval(self.reference):
                gap = self.policy.log_probs(rows) - self.reference(rows.copy())["ref_log_probs"]
            mean = masked(gap, rows["response_mask"]).sum(1).mean()
            baseline = mean.clamp(min=0).to(batch["tokens"].device)
        return batch.set("kl_baseline", baseline.expand(batch.shape[0]).contiguous())

    def _mismatched(self, batch: TensorDict) -> TensorDict:
        """Return each prompt with the next other group's answer, cut to the context length."""
        partners = _next_of_another_group(batch["group_id"])
        limit = self.policy.context_length
        prompts = [_split_row(row)[0] for row in batch]
        answers = [_split_row(batch[partner])[1] for partner in partners]
        rows = []
        for prompt, (ids, trained) in zip(prompts, answers, strict=True):
            row = Demonstration([*prompt, *ids], [*[False] * len(prompt), *trained])
            rows.append(Demonstration(row.ids[:limit], row.trained[:limit]))
        return demonstration_rows(self.policy.tokenizer, rows)


def _split_row(row: TensorDict) -> tuple[list[int], tuple[list[int], list[bool]]]:
    """Return the ids of a prompt, and the ids after it with the mask of the policy's ids."""
    length, mask = int(row["attention_mask"].sum()), row["response_mask"]
    start = int(mask.int().argmax()) if bool(mask.any()) else length
    ids, trained = row["tokens"][:length].tolist(), mask[:length].tolist()
    return ids[:start], (ids[start:], trained[start:])


def _next_of_another_group(group_id: Tensor) -> list[int]:
    """Return for each row the index of the next row of another group, cyclically."""
    groups = group_id.tolist()
    if len({*groups}) < 2:
        raise ConfigError(
            "all rows of the batch answer one prompt, so that there is no answer to another "
            "prompt: set pairs.batch_size to 2 or more"
        )
    rows = range(len(groups))
    return [
        next(j % len(rows) for j in range(i + 1, i + len(rows)) if groups[j % len(rows)] != group)
        for i, group in enumerate(groups)
    ]
