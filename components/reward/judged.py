"""LLM-as-a-judge reward: agreement of the response with the reference answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rlcomp.arguments import Probability
from rlcomp.interfaces.judge import Judge, judge_all
from rlcomp.interfaces.judged_reward import JudgedReward


class Judged(JudgedReward):
    """LLM-as-a-judge reward, ``R = judge(response, answer)`` in [0, 1].

    Reads and writes: see :class:`rlcomp.interfaces.judged_reward.JudgedReward`; the part is
    ``judged``. A row without a verdict is invalid.

    Args:
        judge: the judge of response and reference; another one: ``judge@reward.judge=overlap``.
        correct_from: least score of a correct response.

    Source:
        Zheng et al. 2023 (LLM-as-a-judge, reference-guided), arXiv:2306.05685, section 3.1.
    """

    name = "judged"

    def __init__(self, *, judge: Judge, correct_from: Probability = 0.5) -> None:
        super().__init__()
        self.judge = judge
        self.correct_from = correct_from

    def score(self, prompt: str, response: str, answer: str) -> float | None:
        """Return the judge's score."""
        return self.judge(response, answer)

    def score_rows(
        self, rows: Sequence[Mapping[str, object]], numbers: Sequence[int]
    ) -> list[float | None]:
        """Return the judge's scores of all rows, requested at once."""
        del numbers
        return judge_all(self.judge, [(str(row["response"]), str(row["answer"])) for row in rows])

    def is_correct(self, score: float) -> bool:
        """Return whether the score is high enough."""
        return score >= self.correct_from
