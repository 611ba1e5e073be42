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
    """Held-out pairs: does the reward model prefer the chosen answer, and how sure is it rightly?

    ``P(chosen) = s(r_w - r_l)``. For the calibration every other pair is turned round, so that the
    probability given to its first answer runs from 0 to 1.

    Records ``<name>/accuracy``, share of pairs whose chosen answer has the higher score (half of
    equal scores); ``<name>/nll``, nats a pair; ``<name>/brier``, mean square of ``1 - P(chosen)``;
    ``<name>/ece``, expected calibration error in bins of equal mass; ``<name>/margin``. Ties are
    none of these pairs; of them ``<name>/tied_gap``, the distance of the two scores.

    Args:
        scorer: the reward model.
        task: its held-out part; examples with a column ``rejected``.
        num_pairs: how many; fewer when the task has fewer.
        bins: of the calibration.
        figure: the reliability diagram of the last evaluation, a PNG; null: none.
        name: what its metrics are called; two evaluators need two names.
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
        # Past nn.Module: its tensors belong to the node that is trained.
        object.__setattr__(self, "scorer", scorer)
        self.bins = bins
        self.figure = figure
        self.name = name
        tokenizer = scorer.policy.tokenizer
        # The same pairs at every evaluation: differences are the reward model's.
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
        found = reliability(torch.where(first, margin, -margin).sigmoid(), first, self.bins)
        record(f"{self.name}/ece", expected_calibration_error(found))
        if self.figure is not None:
            title = f"{len(margin)} held-out pairs"
            save_reliability(found, Path(self.figure), title)
        return batch
