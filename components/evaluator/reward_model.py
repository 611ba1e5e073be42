"""Held-out pairs: accuracy and calibration of a reward model."""

from __future__ import annotations

from pathlib import Path

import torch
import torch.nn.functional as F
from tensordict import TensorDict

from rlcomp.arguments import NonEmptyText, PositiveInt
from rlcomp.component import Component
from rlcomp.data.examples import held_out_examples
from rlcomp.data.pairs import pair_rows, tied_pairs
from rlcomp.errors import DataError
from rlcomp.functional.calibration import expected_calibration_error, reliability
from rlcomp.interfaces.prompt import Prompt
from rlcomp.interfaces.task import Task
from rlcomp.metrics import record
from rlcomp.model.scorer import Scorer
from rlcomp.report.reliability_figure import save_reliability
from rlcomp.text.prompt import or_text


class RewardModelPairs(Component):
    """Evaluator of a reward model's accuracy and calibration on held-out pairs.

    ``P(chosen) = s(r_w - r_l)``. For the calibration every other pair is swapped, so that the
    probability of the first answer runs from 0 to 1.

    Records ``<name>/accuracy``, share of pairs whose chosen answer has the higher score (equal
    scores count half); ``<name>/nll``, nats per pair; ``<name>/brier``, mean square of
    ``1 - P(chosen)``; ``<name>/ece``, expected calibration error in bins of equal mass;
    ``<name>/margin``. These leave tied pairs out; ``<name>/tied_gap`` is the distance of the scores
    of ties.

    Args:
        scorer: the reward model.
        task: the task with the held-out examples, which have a column ``rejected``.
        num_pairs: number of pairs; fewer if the task has fewer.
        bins: bins of the calibration.
        figure: path of the last evaluation's reliability diagram (PNG); null: none.
        name: prefix of its metrics; each evaluator needs its own.
        prompt: how prompts become tokens, as in training; plain text if not given.

    Raises:
        DataError: an example has no rejected answer, or all of them are ties.

    Source:
        Guo et al. 2017, arXiv:1706.04599, for calibration.
    """

    def __init__(
        self,
        *,
        scorer: Scorer,
        task: Task,
        num_pairs: PositiveInt = 512,
        bins: PositiveInt = 10,
        figure: NonEmptyText | None = None,
        name: NonEmptyText = "held_out",
        prompt: Prompt | None = None,
    ) -> None:
        super().__init__()
        # Not a submodule: the node that is trained owns the tensors.
        object.__setattr__(self, "scorer", scorer)
        self.bins = bins
        self.figure = figure
        self.name = name
        tokenizer = scorer.policy.tokenizer
        # The same pairs at every evaluation, so that only the reward model differs.
        examples = held_out_examples(task, num_pairs, torch.initial_seed())
        self.rows = pair_rows(tokenizer, or_text(prompt, tokenizer), examples)
        tied = tied_pairs(examples)
        self.tied = torch.zeros(len(examples), dtype=torch.bool) if tied is None else tied
        if bool(self.tied.all()):
            raise DataError(
                f"{name}: all of the {len(examples)} held-out pairs are ties: nothing tells a good "
                "reward model from a bad one; add examples, or raise task.held_out"
            )

    def forward(self, batch: TensorDict) -> TensorDict:
        """Evaluate and record; ignores the training batch."""
        with torch.no_grad():
            scores = self.scorer.scores(self.rows.to(self.scorer.policy.device)).double().cpu()
        margin = scores[0::2] - scores[1::2]
        if bool(self.tied.any()):
            record(f"{self.name}/tied_gap", margin[self.tied].abs())
        margin = margin[~self.tied]
        record(f"{self.name}/margin", margin)
        record(f"{self.name}/accuracy", (margin > 0).double() + (margin == 0).double() / 2)
        record(f"{self.name}/nll", F.softplus(-margin))
        record(f"{self.name}/brier", (-margin).sigmoid() ** 2)
        first = torch.arange(len(margin)) % 2 == 0
        diagram = reliability(torch.where(first, margin, -margin).sigmoid(), first, self.bins)
        record(f"{self.name}/ece", expected_calibration_error(diagram))
        if self.figure is not None:
            title = f"{len(margin)} held-out pairs"
            save_reliability(diagram, Path(self.figure), title)
        return batch
