"""Judge that writes rationales before its verdicts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import torch
from annotated_types import Interval

from rlcomp.arguments import Checked, NonEmptyText, PositiveInt
from rlcomp.errors import ConfigError
from rlcomp.interfaces.judge import AnswerPair, GivesReasons, NoVerdict, PairwiseJudge
from rlcomp.interfaces.protocols import TextGenerator
from rlcomp.metrics import record
from rlcomp.text.template import Template

_TEMPLATE = "Prompt: {prompt}\n1: {first}\n2: {second}\nA comparison of both answers, step by step:"


class ReasoningJudge(metaclass=Checked):
    """Chain-of-thought judge, ``p(first) = mean_k p(first | rationale_k)`` (self-consistency).

    A writer compares the answers in a rationale, and a judge gives its verdict after reading it: by
    the log-probs of its options, or by the mark at the end (``parsed``). A rationale without a
    verdict does not count. With fewer than ``least`` verdicts a pair has no result.

    Records ``reasoned/verdicts``, the share of rationales with a verdict, and
    ``reasoned/majority``, the mean share of a pair's verdicts that agree with the majority, over
    pairs with two or more.

    Args:
        writer: writer of the rationales; several rationales of a text differ only if it samples.
        judge: the judge; reads ``AnswerPair.rationale``, and its template holds ``{rationale}``.
        template: request for a rationale, with ``{prompt}``, ``{first}`` and ``{second}``.
        rationales: number of rationales for each pair and each order.
        least: least number of verdicts of a pair.
        clip: the probability is clipped to ``[clip, 1 - clip]``, because a verdict after a
            rationale is over-confident; Constitutional AI uses 0.4.

    Raises:
        ConfigError: the template lacks a field, or ``least`` is above ``rationales``.

    Source:
        Lee et al. 2023 (RLAIF), arXiv:2309.00267, sections 2.1 and 2.2; Wang et al. 2022
        (self-consistency), arXiv:2203.11171; Bai et al. 2022, arXiv:2212.08073, section 4.1 (clip).

    Examples:
        >>> reasoned = ReasoningJudge(
        ...     writer=lambda texts: ["so the first"] * len(texts),
        ...     judge=lambda pairs: [float("first" in pair.rationale) for pair in pairs],
        ...     template="{prompt} {first} {second}",
        ...     clip=0.25,
        ... )
        >>> reasoned([AnswerPair("p", "a", "b")])
        [0.75]
    """

    def __init__(
        self,
        *,
        writer: TextGenerator,
        judge: PairwiseJudge,
        template: NonEmptyText = _TEMPLATE,
        rationales: PositiveInt = 1,
        least: PositiveInt = 1,
        clip: Annotated[float, Interval(ge=0, lt=0.5)] = 0.0,
    ) -> None:
        self._template = Template(
            "ReasoningJudge", template, required=("prompt", "first", "second")
        )
        if least > rationales:
            raise ConfigError(
                f"ReasoningJudge: least is {least}, and there are {rationales} rationales: raise "
                "rationales"
            )
        self.writer = writer
        self.judge = judge
        self.template = template
        self.rationales = rationales
        self.least = least
        self.clip = clip
        self.no_verdict = (
            judge.no_verdict if isinstance(judge, GivesReasons) else NoVerdict("ReasoningJudge")
        )

    def __call__(self, pairs: Sequence[AnswerPair]) -> list[float | None]:
        """Return for each pair the mean probability that the first is better."""
        several = [pair for pair in pairs for _ in range(self.rationales)]
        verdicts = self._verdicts(several)
        k = self.rationales
        known = [
            [p for p in verdicts[start : start + k] if p is not None]
            for start in range(0, len(verdicts), k)
        ]
        record("reasoned/verdicts", torch.tensor([p is not None for p in verdicts]).double())
        record("reasoned/majority", torch.tensor([_majority(p) for p in known if len(p) > 1]))
        return [self._mean(p) if len(p) >= self.least else None for p in known]

    def _verdicts(self, pairs: Sequence[AnswerPair]) -> list[float | None]:
        """Return the verdict of each rationale; None if there is no rationale or no verdict."""
        texts = self.writer([self._template.fill(pair._asdict()) for pair in pairs])
        rationales = [
            (number, pair._replace(rationale=text))
            for number, (pair, text) in enumerate(zip(pairs, texts, strict=True))
            if text.strip()
        ]
        probabilities: list[float | None] = [None] * len(pairs)
        verdicts = self.judge([pair for _, pair in rationales])
        for (number, _), p in zip(rationales, verdicts, strict=True):
            probabilities[number] = p
        return probabilities

    def _mean(self, verdicts: Sequence[float]) -> float:
        return min(max(sum(verdicts) / len(verdicts), self.clip), 1.0 - self.clip)


def _majority(verdicts: Sequence[float]) -> float:
    """Return the share of the verdicts on the majority's side; .5 is on neither side."""
    first, second = sum(p > 0.5 for p in verdicts), sum(p < 0.5 for p in verdicts)
    return max(first, second) / len(verdicts)
