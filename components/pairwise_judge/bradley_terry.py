"""Judges of the Bradley-Terry model: a verdict follows from the difference of two scores."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from rlcomp.arguments import Checked, NonEmptyText, PositiveFloat, PositiveInt
from rlcomp.errors import ConfigError
from rlcomp.interfaces.judge import AnswerPair
from rlcomp.interfaces.reward import TextReward
from rlcomp.model.text_classifier import classify, label_index, load_classifier


class LearnedJudge(metaclass=Checked):
    """Judge by a sequence classifier, ``p(first) = s(scale (z_1 - z_2))`` (Bradley-Terry).

    ``s`` is the sigmoid. ``z`` is the classifier's output for prompt + answer: the score of a
    reward model, or the log-odds of a label. An empty text has no verdict.

    Args:
        path: a folder with the model and its tokenizer (``rlcomp-export RUN DIR --scorer``).
        label: name of the output in the model's ``id2label``; None if there is only one.
        scale: log-odds of the verdict per unit of the output; below 0 for an unwanted label, such
            as toxicity.
        batch_size: texts per forward pass.

    Raises:
        DataError: the folder has no sequence classifier.
        ConfigError: ``scale`` is 0, the model has no output ``label``, or ``label`` is None and the
            model has several outputs.
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
            raise ConfigError(
                "LearnedJudge: scale is 0, so that every verdict is 0.5: set another number"
            )
        self.scale = scale
        self.batch_size = batch_size
        self.model, self.tokenizer = load_classifier(path)
        self._output = label_index(self.model, label, path)

    def __call__(self, pairs: Sequence[AnswerPair]) -> list[float | None]:
        """Return for each pair the probability that the first is better."""
        text_pairs = [(pair.prompt + pair.first, pair.prompt + pair.second) for pair in pairs]
        scores = self._scores({text for texts in text_pairs for text in texts if text})
        return [
            self._verdict(scores[first] - scores[second]) if first and second else None
            for first, second in text_pairs
        ]

    def _verdict(self, gap: float) -> float:
        return float(torch.tensor(self.scale * gap, dtype=torch.float64).sigmoid())

    def _scores(self, texts: set[str]) -> dict[str, float]:
        """Return the output for each text, in batches of similar length to save padding."""
        ordered = sorted(texts, key=lambda text: (len(text), text))
        scores: dict[str, float] = {}
        for start in range(0, len(ordered), self.batch_size):
            chunk = ordered[start : start + self.batch_size]
            with torch.no_grad():
                outputs = classify(self.model, self.tokenizer, chunk)[:, self._output]
            scores |= zip(chunk, outputs.tolist(), strict=True)
        return scores


class SimulatedJudge(metaclass=Checked):
    """Simulated judge, ``p(first) = s((q_1 - q_2) / temperature + b_l (l_1 - l_2) + b_p)``.

    ``s`` is the sigmoid, ``q`` the quality of an answer, ``l`` its length in characters. A bias
    ``b_p`` of .4 moves the probability of equally good answers from .5 to .6.

    Args:
        quality: reward that scores answers, and may read the gold answer; an answer without a
            reward gives no verdict.
        temperature: difference of qualities at which the better answer is preferred with
            probability .73.
        position_bias: b_p, log-odds in favour of the answer shown first.
        length_bias: b_l, log-odds per character.

    Source:
        Biases of judges: Zheng et al. 2023 (MT-Bench), arXiv:2306.05685, section 3.3.

    Examples:
        >>> from components.worlds.sorting.positional_accuracy import PositionalAccuracy
        >>> judge = SimulatedJudge(quality=PositionalAccuracy(), temperature=0.5)
        >>> pairs = [AnswerPair("", "12", "13", "12"), AnswerPair("", "3", "4", "12")]
        >>> [round(p, 2) for p in judge(pairs)]
        [0.73, 0.5]
    """

    def __init__(
        self,
        *,
        quality: TextReward,
        temperature: PositiveFloat = 0.2,
        position_bias: float = 0.0,
        length_bias: float = 0.0,
    ) -> None:
        self.quality = quality
        self.temperature = temperature
        self.position_bias = position_bias
        self.length_bias = length_bias

    def __call__(self, pairs: Sequence[AnswerPair]) -> list[float | None]:
        """Return for each pair the probability that the first is preferred."""
        return [self._probability(pair) for pair in pairs]

    def _probability(self, pair: AnswerPair) -> float | None:
        first, second = (self.quality.score(pair.prompt, text, pair.answer) for text in pair[1:3])
        if first is None or second is None:
            return None
        log_odds = (first - second) / self.temperature + self.position_bias
        log_odds += self.length_bias * (len(pair.first) - len(pair.second))
        return 0.5 * (1.0 + math.tanh(log_odds / 2.0))  # the sigmoid, without overflow
