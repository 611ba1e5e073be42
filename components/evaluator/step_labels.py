"""Held-out labelled steps: accuracy and calibration of a process reward model."""

from __future__ import annotations

import torch
from tensordict import TensorDict

from rlcomp.arguments import NonEmptyText, PositiveInt
from rlcomp.component import Component
from rlcomp.data.examples import held_out_examples
from rlcomp.data.step_rows import step_rows
from rlcomp.functional.calibration import expected_calibration_error, reliability
from rlcomp.functional.masked import masked
from rlcomp.interfaces.prompt import Prompt
from rlcomp.interfaces.task import Task
from rlcomp.metrics import record
from rlcomp.model.token_scorer import TokenScorer
from rlcomp.text.prompt import or_text


class LabelledSteps(Component):
    """Evaluator of a process reward model's accuracy and calibration on held-out steps.

    Records ``<name>/accuracy``, the share of steps whose score and label are on the same side of
    1/2; ``<name>/base``, the accuracy of the more frequent label; ``<name>/first_error``: among
    answers with a wrong step, the share whose first wrong step is the first one that the model
    calls wrong; ``<name>/ece``, expected calibration error of the steps in bins of equal mass.

    Args:
        scorer: the process reward model.
        task: the task with the held-out examples, with columns ``steps`` and ``step_labels``.
        num_answers: number of answers; fewer if the task has fewer.
        bins: bins of the calibration.
        name: prefix of its metrics; each evaluator needs its own.
        prompt: how prompts become tokens, as in training; plain text if not given.

    Raises:
        DataError: an example has no labelled steps.

    Source:
        Zheng et al. 2024 (ProcessBench), arXiv:2412.06559, for the first error.
    """

    def __init__(
        self,
        *,
        scorer: TokenScorer,
        task: Task,
        num_answers: PositiveInt = 512,
        bins: PositiveInt = 10,
        name: NonEmptyText = "held_out",
        prompt: Prompt | None = None,
    ) -> None:
        super().__init__()
        # Not a submodule: the node that is trained owns the tensors.
        object.__setattr__(self, "scorer", scorer)
        self.bins = bins
        self.name = name
        tokenizer = scorer.policy.tokenizer
        # The same answers at every evaluation, so that only the model differs.
        examples = held_out_examples(task, num_answers, torch.initial_seed())
        self.rows = step_rows(tokenizer, or_text(prompt, tokenizer), examples)

    def forward(self, batch: TensorDict) -> TensorDict:
        """Evaluate and record; ignores the training batch."""
        with torch.no_grad():
            score = self.scorer.token_scores(self.rows.to(self.scorer.policy.device)).cpu()
        ends, right = self.rows["step_end"], self.rows["step_label"] > 0.5
        share = right[ends].double().mean()
        record(f"{self.name}/accuracy", (score > 0) == right, where=ends)
        record(f"{self.name}/base", float(torch.maximum(share, 1 - share)))
        wrong, called = ends & ~right, ends & (score <= 0)
        same = (_first(wrong) == _first(called)).all(1)
        record(f"{self.name}/first_error", same, where=wrong.any(1))
        bins = reliability(score[ends].double().sigmoid(), right[ends], self.bins)
        record(f"{self.name}/ece", expected_calibration_error(bins))
        return batch


def _first(marked: torch.Tensor) -> torch.Tensor:
    """Keep only the first marked token of each row, shape ``[B, T]``."""
    return masked(marked, marked.cumsum(1) == 1)
