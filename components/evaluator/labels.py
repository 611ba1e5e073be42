"""Held-out texts: ranking by a classifier for each label."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from tensordict import TensorDict
from torch import Tensor

from rlcomp.arguments import NonEmptyText, PositiveInt
from rlcomp.component import Component
from rlcomp.data.examples import demonstrations, held_out_examples
from rlcomp.data.labels import label_rows
from rlcomp.functional.label_ranking import average_precision, roc_auc
from rlcomp.interfaces.prompt import Prompt
from rlcomp.interfaces.task import Task
from rlcomp.metrics import record
from rlcomp.model.label_classifier import LabelClassifier
from rlcomp.text.prompt import or_text
from rlcomp.text.rows import demonstration_rows


class Labels(Component):
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
        prompt: how texts become tokens, as in training; plain text if not given.

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
        prompt: Prompt | None = None,
    ) -> None:
        super().__init__()
        # Not a submodule: the node that is trained owns the tensors.
        object.__setattr__(self, "scorer", scorer)
        self.name = name
        tokenizer = scorer.policy.tokenizer
        # The same texts at every evaluation, so that only the classifier differs.
        examples = held_out_examples(task, num_texts, torch.initial_seed())
        texts = demonstrations(or_text(prompt, tokenizer), examples)
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
