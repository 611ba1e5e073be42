"""Simulated judge with known quality, noise and planted biases."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rlcomp.arguments import Checked, PositiveFloat
from rlcomp.interfaces.judge import AnswerPair
from rlcomp.interfaces.reward import TextReward


class SimulatedJudge(metaclass=Checked):
    """Simulated judge, ``p(first) = s((q_1 - q_2) / temperature + b_l (l_1 - l_2) + b_p)``.

    ``q`` is the quality of an answer, ``l`` its length in characters. A bias of .4 moves the
    probability of equally good answers from .5 to .6.

    Args:
        quality: a reward of texts, which sees the right answer; if it returns None, the verdict is
            None.
        temperature: the difference of qualities at which the better one is preferred in .73 of all
            verdicts.
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
        odds = (first - second) / self.temperature + self.position_bias
        odds += self.length_bias * (len(pair.first) - len(pair.second))
        return 0.5 * (1.0 + math.tanh(odds / 2.0))
