"""LLM-as-a-judge reward: how far the response agrees with the reference answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rlcomp.arguments import Probability
from rlcomp.interfaces.judge import Judge, judge_all
from rlcomp.interfaces.judged_reward import JudgedReward


class Judged(JudgedReward):
    """LLM-as-a-judge reward, ``R = judge(response, answer)`` in [0, 1].

    Reads and writes: see :class:`rlcomp.interfaces.judged_reward.JudgedReward`; the part is
    ``judged``. What the judge cannot tell is invalid.

    Args:
        judge: compares response and reference answer; another one: ``judge@reward.judge=overlap``.
        correct_from: the least score that counts as correct.

    Source:
        Zheng et al. 2023 (LLM-as-a-judge, reference-guided), arXiv:2306.05685, section 3.1.
    """

    name = "judged"

    def __init__(self, *, judge: Judge, correct_from: Probability = 0.5) -> None:
        super().__init__()
        self.judge = judge
        self.correct_from = correct_from

    def score(self, prompt: str, response: str, answer: str) -> float | None:
        """The judge's score."""
        return self.judge(response, answer)

    def score_rows(
        self, rows: Sequence[Mapping[str, object]], numbers: Sequence[int]
    ) -> list[float | None]:
        """The judge's scores, asked for at once."""
        del numbers
        return judge_all(self.judge, [(str(row["response"]), str(row["answer"])) for row in rows])

    def is_correct(self, score: float) -> bool:
        """Whether the score is high enough."""
        return score >= self.correct_from
