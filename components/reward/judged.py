"""Rewards by a judge."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import torch
from tensordict import TensorDict
from transformers import PreTrainedTokenizerBase

from rlcomp.arguments import NonEmptyText, Probability
from rlcomp.batch import decode_texts
from rlcomp.component import Component
from rlcomp.errors import DataError
from rlcomp.functional.prefix_match import last_boxed
from rlcomp.interfaces.judge import Judge, JudgedReward, judge_all, write_reasons
from rlcomp.interfaces.reward import write_reward
from rlcomp.metrics import record
from rlcomp.text.reasoning import ThoughtEnd


class JudgeScore(JudgedReward):
    """LLM-as-a-judge reward, ``R = judge(response, answer)`` in [0, 1].

    Reads and writes: see :class:`rlcomp.interfaces.judge.JudgedReward`; the part is
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


class JudgedSegment(Component):
    r"""RLPT's next-segment reward: judge's score of the last ``\boxed{}`` after the thought.

    A response without a box, or with a box that is not UTF-8, is the policy's mistake: it gets
    reward 0 and is valid. If the judge returns None, the row is invalid. Only tokens under
    ``response_mask`` are read.

    Reads ``tokens``, ``response_mask`` ``[B, T]``, ``answer`` ``[B, W]``. Writes ``reward``,
    float32 ``[B]``, ``rewards`` (``{judged_segment: [B]}``), ``correct`` and ``reward_valid`` (bool
    ``[B]``), ``invalid_reason`` ``[B, W]``. Records ``reward/answered``, the share of responses
    with a box, and the metrics of :func:`rlcomp.interfaces.reward.write_reward`.

    Args:
        judge: the judge of a prediction and the true text; another one:
            ``judge@reward.judge=overlap``.
        tokenizer: the policy's tokenizer, a fast one.
        think_end: the text that ends a thought; the box is searched after the first one.
        correct_from: least score of a correct response.

    Raises:
        DataError: the tokenizer cannot write ``think_end``, or the judge's score is not in [0, 1].

    Source:
        Prediction of the next segment, judged by a model: Li et al. 2025 (RLPT), arXiv:2509.19249.
    """

    reads = ("tokens", "response_mask", "answer")
    optional = ("episode_error",)
    writes = ("reward", "rewards", "correct", "reward_valid", "invalid_reason")

    def __init__(
        self,
        *,
        judge: Judge,
        tokenizer: PreTrainedTokenizerBase,
        think_end: NonEmptyText = "</think>",
        correct_from: Probability = 0.5,
    ) -> None:
        super().__init__()
        self.judge = judge
        self.tokenizer = tokenizer
        self.think_end = think_end
        self.correct_from = correct_from
        self._end = ThoughtEnd(tokenizer, think_end)

    def forward(self, batch: TensorDict) -> TensorDict:
        """Judge every row."""
        boxes = self._boxes(batch)
        answers = decode_texts(batch["answer"])
        scores = [self._score(box, text) for box, text in zip(boxes, answers, strict=True)]
        device = batch["tokens"].device
        record("reward/answered", torch.tensor([box is not None for box in boxes]))
        valid = torch.tensor([score is not None for score in scores], device=device)
        values = [0.0 if score is None else score for score in scores]
        reward = torch.tensor(values, dtype=torch.float32, device=device)
        correct = reward >= self.correct_from
        write_reward(batch, reward, {"judged_segment": reward}, correct, valid)
        return write_reasons(batch, self.judge)

    def _boxes(self, batch: TensorDict) -> list[bytes | None]:
        rows = zip(batch["tokens"].cpu(), batch["response_mask"].cpu(), strict=True)
        texts = [self._end.bytes_of(tokens[mask].tolist()) for tokens, mask in rows]
        return [last_boxed(text, after=self._end.text) for text in texts]

    def _score(self, box: bytes | None, answer: str) -> float | None:
        prediction = None if box is None else _text(box)
        if prediction is None:
            return 0.0
        score = self.judge(prediction, answer)
        if score is not None and not (math.isfinite(score) and 0 <= score <= 1):
            raise DataError(
                f"{type(self.judge).__name__} scored {prediction[:60]!r} with {score}: a judge "
                "says a number in [0, 1], or None where it cannot tell"
            )
        return score


def _text(box: bytes) -> str | None:
    """Return the bytes decoded as UTF-8; None if they are not."""
    try:
        return box.decode("utf-8")
    except UnicodeDecodeError:
        return None
