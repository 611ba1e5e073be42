"""Multi-label classifier of texts: a language model's backbone with a head of several outputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from tensordict import TensorDict
from torch import Tensor

from rlcomp.arguments import MinLen, NonEmptyText
from rlcomp.engine.engine import AUTO, Engine
from rlcomp.errors import ConfigError, nearest
from rlcomp.model.language_model import LanguageModel
from rlcomp.model.scorer import ScoreHead, Scorer
from rlcomp.seed import new_generator


class LabelClassifier(Scorer):
    """Multi-label classifier ``log p_k / (1 - p_k) = w_k . h``: log-odds of the labels of a text.

    ``h`` and the copy of the backbone are those of :class:`rlcomp.model.scorer.Scorer`. Used as a
    reward model (``reward=scored``), its score is the log-odds of one label.

    Reads ``tokens``, ``attention_mask`` ``[B, T]``. Writes ``label_logits`` ``[B, K]``,
    differentiable.

    Args:
        policy: its model is copied; it defines the tokens that end a text.
        labels: the names of the ``K`` labels, in the order of the outputs.
        score: the label whose log-odds are the score; None for the first.
        engine: the compute engine of the backbone.

    Raises:
        ConfigError: a label occurs twice, or ``score`` is none of them.
    """

    writes = ("label_logits",)

    def __init__(
        self,
        *,
        policy: LanguageModel,
        labels: Annotated[Sequence[NonEmptyText], MinLen(1)],
        score: NonEmptyText | None = None,
        engine: Engine = AUTO,
    ) -> None:
        super().__init__(policy=policy, engine=engine)
        if len({*labels}) < len(labels):
            raise ConfigError(f"LabelClassifier: labels {list(labels)}: one stands there twice")
        if score is not None and score not in labels:
            raise ConfigError(f"LabelClassifier: score is {score!r}{nearest(score, labels)}")
        self.labels = tuple(labels)
        self.score = score
        self.score_head = ScoreHead(policy.model, new_generator(), len(labels))

    def forward(self, batch: TensorDict) -> TensorDict:
        """Write the log-odds, with gradient where gradients are enabled."""
        batch["label_logits"] = self.logits(batch)
        return batch

    def logits(self, batch: TensorDict) -> Tensor:
        """Compute log-odds of the labels, shape ``[B, K]``; 0 for a row without a token."""
        return self._read_head(batch)

    def scores(self, batch: TensorDict) -> Tensor:
        """Compute log-odds of one label, shape ``[B]``."""
        return self.logits(batch)[:, 0 if self.score is None else self.labels.index(self.score)]
