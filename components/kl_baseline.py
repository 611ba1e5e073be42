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
from rlcomp.model.auxiliary_forward import aside
from rlcomp.run.check_flow import built_flow
from rlcomp.text.rows import demonstration_rows


class MismatchedKL(Component):
    """Stage that estimates KTO's reference point from answers to other prompts.

    ``z0 = max(0, mean_i log(pi(y_j | x_i) / pi_ref(y_j | x_i)))``, ``j`` the next row of another
    group; without gradient, with the weights before the learner's update.

    Reads ``tokens``, ``attention_mask``, ``response_mask`` ``[B, T]``, ``group_id`` ``[B]``. Writes
    ``kl_baseline`` ``[B]``, nats, the same in all rows; 0, without computation, if no loss of the
    learner reads it.

    Args:
        policy: the policy; scores the mismatched rows.
        reference: the reference; writes their ``ref_log_probs``.
        learner: the learner; its losses determine whether the reference point is needed.

    Raises:
        ConfigError: a loss reads it and there is no reference, or all rows answer one prompt.

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
        self.wanted = "kl_baseline" in built_flow(learner).reads
        if self.wanted and "ref_log_probs" not in reference.writes:
            raise ConfigError(
                f"kl_baseline.reference is a {type(reference).__name__}, which scores nothing, but "
                "a loss reads 'kl_baseline': set reference=frozen, or a loss without a reference "
                "(loss=simpo)"
            )

    def forward(self, batch: TensorDict) -> TensorDict:
        """Write the reference point."""
        baseline = torch.zeros((), device=batch["tokens"].device)
        if self.wanted:
            rows = self._mismatched(batch).to(self.policy.device)
            with torch.no_grad(), aside(self.reference):
                gap = self.policy.log_probs(rows) - self.reference(rows.copy())["ref_log_probs"]
            mean = masked(gap, rows["response_mask"]).sum(1).mean()
            baseline = mean.clamp(min=0).to(batch["tokens"].device)
        return batch.set("kl_baseline", baseline.expand(batch.shape[0]).contiguous())

    def _mismatched(self, batch: TensorDict) -> TensorDict:
        """Return each prompt with the next other group's answer, cut to the context length."""
        others = _next_of_another_group(batch["group_id"])
        limit = self.policy.context_length
        prompts = [_parts(row)[0] for row in batch]
        answers = [_parts(batch[other])[1] for other in others]
        rows = []
        for prompt, (ids, own) in zip(prompts, answers, strict=True):
            row = Demonstration([*prompt, *ids], [*[False] * len(prompt), *own])
            rows.append(Demonstration(row.ids[:limit], row.trained[:limit]))
        return demonstration_rows(self.policy.tokenizer, rows)


def _parts(row: TensorDict) -> tuple[list[int], tuple[list[int], list[bool]]]:
    """Return the ids of a prompt, and the ids after it with the mask of the policy's ids."""
    length, mask = int(row["attention_mask"].sum()), row["response_mask"]
    start = int(mask.int().argmax()) if bool(mask.any()) else length
    ids, own = row["tokens"][:length].tolist(), mask[:length].tolist()
    return ids[:start], (ids[start:], own[start:])


def _next_of_another_group(group_id: Tensor) -> list[int]:
    groups = group_id.tolist()
    if len({*groups}) < 2:
        raise ConfigError(
            "all rows of the batch answer one prompt, so that no answer is one to another: set "
            "pairs.batch_size to 2 or more"
        )
    rows = range(len(groups))
    return [
        next(j % len(rows) for j in range(i + 1, i + len(rows)) if groups[j % len(rows)] != one)
        for i, one in enumerate(groups)
    ]
