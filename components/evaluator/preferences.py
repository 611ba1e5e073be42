"""Held-out preference pairs: likelihood of both answers, and the share with the chosen ahead."""

from __future__ import annotations

import torch
from tensordict import TensorDict
from torch import Tensor

from rlcomp.arguments import NonEmptyText, PositiveInt
from rlcomp.component import Component
from rlcomp.data.examples import held_out_examples
from rlcomp.data.pairs import pair_rows
from rlcomp.functional.reduction import masked
from rlcomp.interfaces.policy import Policy
from rlcomp.interfaces.prompt import PromptFormat
from rlcomp.interfaces.task import Task
from rlcomp.metrics import record
from rlcomp.model.auxiliary_forward import muted_eval
from rlcomp.text.prompt import or_text


class HeldOutPairs(Component):
    """Evaluator of the policy's likelihood of both answers of held-out pairs.

    Records ``<name>/chosen_log_prob`` and ``rejected_log_prob``, nats per answer; with a reference
    ``chosen_change`` and ``rejected_change``, the same minus the reference's; ``margin``, the
    change (without a reference, the log-prob) of the chosen minus that of the rejected answer;
    ``accuracy``, the share of pairs with a margin above 0 (0 counts half). Margins can grow while
    chosen answers become less likely: look at both.

    Args:
        policy: the model to evaluate.
        task: the task with the held-out examples, which have a column ``rejected``.
        reference: the reference; writes ``ref_log_probs``. ``reference=none`` for none.
        num_pairs: number of pairs; fewer if the task has fewer.
        name: prefix of its metrics; each evaluator needs its own.
        prompt: how prompts become tokens, as in training; plain text if not given.

    Raises:
        DataError: an example has no rejected answer.
    """

    def __init__(
        self,
        *,
        policy: Policy,
        task: Task,
        reference: Component,
        num_pairs: PositiveInt = 256,
        name: NonEmptyText = "held_out",
        prompt: PromptFormat | None = None,
    ) -> None:
        super().__init__()
        self.policy = policy
        self.reference = reference
        self.num_pairs = num_pairs
        self.name = name
        self.prompt = or_text(prompt, policy.tokenizer)
        # The same pairs at every evaluation, so that only the policy differs.
        examples = held_out_examples(task, num_pairs, torch.initial_seed())
        self.rows = pair_rows(policy.tokenizer, self.prompt, examples)

    def forward(self, batch: TensorDict) -> TensorDict:
        """Evaluate and record; ignores the training batch."""
        rows = self.rows.to(self.policy.device)
        with torch.no_grad():
            sums = _sums(self.policy.log_probs(rows), rows)
        self._record("log_prob", sums)
        if "ref_log_probs" in self.reference.writes:
            with muted_eval(self.reference):
                scored = self.reference(rows.copy())
            sums = sums - _sums(scored["ref_log_probs"], rows)
            self._record("change", sums)
        margin = sums[0::2] - sums[1::2]
        record(f"{self.name}/margin", margin)
        record(f"{self.name}/accuracy", (margin > 0).double() + (margin == 0).double() / 2)
        return batch

    def _record(self, what: str, sums: Tensor) -> None:
        record(f"{self.name}/chosen_{what}", sums[0::2])
        record(f"{self.name}/rejected_{what}", sums[1::2])


def _sums(log_probs: Tensor, rows: TensorDict) -> Tensor:
    return masked(log_probs, rows["response_mask"]).sum(1)
