"""Evaluation of reward models on held-out labels."""

from __future__ import annotations

from pathlib import Path

import torch
import torch.nn.functional as F
from tensordict import TensorDict
from torch import Tensor

from rlcomp.arguments import NonEmptyText, PositiveInt
from rlcomp.component import Component
from rlcomp.data.examples import demonstrations, held_out_examples
from rlcomp.data.labelled_rows import label_rows, step_rows
from rlcomp.data.pairs import pair_rows, ratings, tied_pairs
from rlcomp.errors import DataError
from rlcomp.functional.reduction import masked
from rlcomp.functional.statistics import (
    average_precision,
    expected_calibration_error,
    rank_correlation,
    reliability,
    roc_auc,
)
from rlcomp.interfaces.prompt import PromptFormat
from rlcomp.interfaces.task import Task
from rlcomp.metrics import record
from rlcomp.model.scorer import LabelClassifier, Scorer, TokenScorer
from rlcomp.report.figures import save_reliability
from rlcomp.text.prompt import resolve_prompt_format
from rlcomp.text.rows import demonstration_rows


class RewardModelPairs(Component):
    """Evaluator of a reward model's accuracy and calibration on held-out pairs.

    ``P(chosen) = sigmoid(r_w - r_l)`` with the scores ``r_w`` of the chosen and ``r_l`` of the
    rejected answer. For the calibration every other pair is swapped, so that the probability of the
    first answer runs from 0 to 1.

    Records ``<name>/accuracy``, share of pairs whose chosen answer has the higher score (equal
    scores count half); ``<name>/nll``, nats per pair; ``<name>/brier``, mean square of
    ``1 - P(chosen)``; ``<name>/ece``, expected calibration error in bins of equal mass;
    ``<name>/margin``, ``r_w - r_l``. These leave tied pairs out; ``<name>/tied_gap`` is the mean
    ``|r_w - r_l|`` of the tied pairs.

    Args:
        scorer: the reward model.
        task: the task with the held-out examples, which have a column ``rejected``.
        num_pairs: number of pairs; fewer if the task has fewer.
        bins: bins of the calibration.
        figure: path of the last evaluation's reliability diagram (PNG); null: none.
        name: prefix of its metrics; each evaluator needs its own.
        prompt: prompt format, as in training; None: plain text.

    Raises:
        DataError: an example has no rejected answer, or all pairs are ties.

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
        prompt: PromptFormat | None = None,
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
        self.rows = pair_rows(tokenizer, resolve_prompt_format(prompt, tokenizer), examples)
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


class RatingAgreement(Component):
    """Evaluator of a reward model's order of held-out rated answers.

    Records ``<name>/rank_correlation``, Spearman's correlation of scores and ratings, and
    ``<name>/accuracy``: among pairs of answers with different ratings, the share whose better
    answer has the higher score (equal scores count half).

    Args:
        scorer: the reward model.
        task: the task with the held-out examples, which have a column ``rating`` or ``desirable``.
        num_answers: number of answers; fewer if the task has fewer.
        name: prefix of its metrics; each evaluator needs its own.
        prompt: prompt format, as in training; None: plain text.

    Raises:
        DataError: an example has no rating.
    """

    def __init__(
        self,
        *,
        scorer: Scorer,
        task: Task,
        num_answers: PositiveInt = 512,
        name: NonEmptyText = "held_out",
        prompt: PromptFormat | None = None,
    ) -> None:
        super().__init__()
        # Not a submodule: the node that is trained owns the tensors.
        object.__setattr__(self, "scorer", scorer)
        self.name = name
        tokenizer = scorer.policy.tokenizer
        # The same answers at every evaluation, so that only the reward model differs.
        examples = held_out_examples(task, num_answers, torch.initial_seed())
        self.ratings = ratings(examples)
        answers = demonstrations(resolve_prompt_format(prompt, tokenizer), examples)
        self.rows = demonstration_rows(tokenizer, answers)

    def forward(self, batch: TensorDict) -> TensorDict:
        """Evaluate and record; ignores the training batch."""
        with torch.no_grad():
            scores = self.scorer.scores(self.rows.to(self.scorer.policy.device)).double().cpu()
        correlation = rank_correlation(self.ratings.double().numpy(), scores.numpy())
        record(f"{self.name}/rank_correlation", correlation)
        better = self.ratings[:, None] > self.ratings
        lead = (scores[:, None] - scores)[better]
        record(f"{self.name}/accuracy", (lead > 0).double() + (lead == 0).double() / 2)
        return batch


class StepLabelAccuracy(Component):
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
        prompt: prompt format, as in training; None: plain text.

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
        prompt: PromptFormat | None = None,
    ) -> None:
        super().__init__()
        # Not a submodule: the node that is trained owns the tensors.
        object.__setattr__(self, "scorer", scorer)
        self.bins = bins
        self.name = name
        tokenizer = scorer.policy.tokenizer
        # The same answers at every evaluation, so that only the model differs.
        examples = held_out_examples(task, num_answers, torch.initial_seed())
        self.rows = step_rows(tokenizer, resolve_prompt_format(prompt, tokenizer), examples)

    def forward(self, batch: TensorDict) -> TensorDict:
        """Evaluate and record; ignores the training batch."""
        with torch.no_grad():
            score = self.scorer.token_scores(self.rows.to(self.scorer.policy.device)).cpu()
        ends, right = self.rows["step_end"], self.rows["step_label"] > 0.5
        share = right[ends].double().mean()
        record(f"{self.name}/accuracy", (score > 0) == right, where=ends)
        record(f"{self.name}/base", float(torch.maximum(share, 1 - share)))
        wrong, flagged = ends & ~right, ends & (score <= 0)
        same = (_first(wrong) == _first(flagged)).all(1)
        record(f"{self.name}/first_error", same, where=wrong.any(1))
        bins = reliability(score[ends].double().sigmoid(), right[ends], self.bins)
        record(f"{self.name}/ece", expected_calibration_error(bins))
        return batch


def _first(mask: Tensor) -> Tensor:
    """Return the mask of the first marked token of each row, shape ``[B, T]``."""
    return masked(mask, mask.cumsum(1) == 1)


class LabelRanking(Component):
    """Evaluator of a classifier's ranking of held-out texts by each label.

    Records for each label ``<name>/<label>/auc`` (area under the ROC curve, 1/2 by chance),
    ``<name>/<label>/ap`` (average precision) and ``<name>/<label>/share`` (average precision by
    chance), if there are held-out texts with and without it; ``<name>/auc`` and ``<name>/ap``,
    their means over these labels; and ``<name>/nll``, nats per known label. A probability of 1/2
    or more counts as having the label.

    Args:
        scorer: the classifier.
        task: the task with the held-out texts (``task=labelled_texts``).
        num_texts: number of texts; fewer if the task has fewer.
        name: prefix of its metrics; each evaluator needs its own.
        prompt: prompt format, as in training; None: plain text.

    Raises:
        DataError: an example has no labels.
    """

    def __init__(
        self,
        *,
        scorer: LabelClassifier,
        task: Task,
        num_texts: PositiveInt = 512,
        name: NonEmptyText = "held_out",
        prompt: PromptFormat | None = None,
    ) -> None:
        super().__init__()
        # Not a submodule: the node that is trained owns the tensors.
        object.__setattr__(self, "scorer", scorer)
        self.name = name
        tokenizer = scorer.policy.tokenizer
        # The same texts at every evaluation, so that only the classifier differs.
        examples = held_out_examples(task, num_texts, torch.initial_seed())
        texts = demonstrations(resolve_prompt_format(prompt, tokenizer), examples)
        self.rows = demonstration_rows(tokenizer, texts)
        self.truth = label_rows(examples, scorer.labels)

    def forward(self, batch: TensorDict) -> TensorDict:
        """Evaluate and record; ignores the training batch."""
        with torch.no_grad():
            logits = self.scorer.logits(self.rows.to(self.scorer.policy.device)).double().cpu()
        known = ~self.truth.isnan()
        nll = F.binary_cross_entropy_with_logits(
            logits, self.truth.nan_to_num().double(), reduction="none"
        )
        record(f"{self.name}/nll", nll, where=known)
        for number, label in enumerate(self.scorer.labels):
            labelled = known[:, number]
            self._record(label, logits[labelled, number], self.truth[labelled, number] >= 0.5)
        return batch

    def _record(self, label: str, score: Tensor, positive: Tensor) -> None:
        if not 0 < int(positive.sum()) < len(positive):
            return
        metrics = {"auc": roc_auc(score, positive), "ap": average_precision(score, positive)}
        record(f"{self.name}/{label}/share", positive.double())
        for kind, value in metrics.items():
            record(f"{self.name}/{label}/{kind}", value)
            record(f"{self.name}/{kind}", value)
