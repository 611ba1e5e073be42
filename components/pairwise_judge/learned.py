"""Judge of pairs by a classifier or a reward model from a folder."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from rlcomp.arguments import Checked, NonEmptyText, PositiveInt
from rlcomp.errors import ConfigError
from rlcomp.interfaces.judge import AnswerPair
from rlcomp.model.text_classifier import classify, label_index, load_classifier


class LearnedJudge(metaclass=Checked):
    """Judge by a sequence classifier, ``p(first) = s(scale (z_1 - z_2))`` (Bradley-Terry).

    ``z`` is an output for prompt + answer: the score of a reward model, or the log-odds of a label.
    For an unwanted label, such as toxicity, use a negative scale. An empty text cannot be judged.

    Args:
        path: a folder with the model and its tokenizer (``rlcomp-export RUN DIR --scorer``).
        label: name of the output in the model's ``id2label``; None if there is only one.
        scale: log-odds of the verdict per unit of the output; below 0 for an unwanted label.
        batch_size: texts per forward pass.

    Raises:
        DataError: there is no such model in the folder.
        ConfigError: ``scale`` is 0, the model has no such label, or it has several and none is
            named.
    """

    def __init__(
        self,
        *,
        path: NonEmptyText,
        label: str | None = None,
        scale: float = 1.0,
        batch_size: PositiveInt = 32,
    ) -> None:
        if scale == 0:
            raise ConfigError("LearnedJudge: scale is 0, which prefers nothing: set another number")
        self.path = path
        self.label = label
        self.scale = scale
        self.batch_size = batch_size
        self.model, self.tokenizer = load_classifier(path)
        self._output = label_index(self.model, label, path)

    def __call__(self, pairs: Sequence[AnswerPair]) -> list[float | None]:
        """Return for each pair the probability that the first is better."""
        texts_of_pairs = [(pair.prompt + pair.first, pair.prompt + pair.second) for pair in pairs]
        scores = self._scores({text for texts in texts_of_pairs for text in texts if text})
        return [
            self._verdict(scores[first] - scores[second]) if first and second else None
            for first, second in texts_of_pairs
        ]

    def _verdict(self, gap: float) -> float:
        return float(torch.tensor(self.scale * gap, dtype=torch.float64).sigmoid())

    def _scores(self, texts: set[str]) -> dict[str, float]:
        """Return the output for each text, in batches of similar length to save padding."""
        ordered = sorted(texts, key=lambda text: (len(text), text))
        scores: dict[str, float] = {}
        for start in range(0, len(ordered), self.batch_size):
            some = ordered[start : start + self.batch_size]
            with torch.no_grad():
                outputs = classify(self.model, self.tokenizer, some)[:, self._output]
            scores |= zip(some, outputs.tolist(), strict=True)
        return scores
