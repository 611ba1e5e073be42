"""LLM judges that write a rationale before the verdict."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import combinations
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

    A writer compares the answers in a rationale, and a judge reads the rationale before its
    verdict. The verdict follows from the log-probs of the judge's options, or from the mark at the
    end of the rationale (:class:`ParsedJudge`). A pair with fewer than ``least`` verdicts has no
    result.

    Records ``reasoned/verdicts``, the share of rationales with a verdict, and
    ``reasoned/majority``, the mean share of a pair's verdicts that agree with the majority, over
    pairs with two or more.

    Args:
        writer: writer of the rationales; several rationales of a text differ only if it samples.
        judge: the judge; reads ``AnswerPair.rationale``, and its template holds ``{rationale}``.
        template: request for a rationale, with ``{prompt}``, ``{first}`` and ``{second}``.
        rationales: number of rationales of a pair in one order.
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
        self.rationales = rationales
        self.least = least
        self.clip = clip
        self.no_verdict = (
            judge.no_verdict if isinstance(judge, GivesReasons) else NoVerdict("ReasoningJudge")
        )

    def __call__(self, pairs: Sequence[AnswerPair]) -> list[float | None]:
        """Return for each pair the mean probability that the first is better."""
        k = self.rationales
        verdicts = self._verdicts([pair for pair in pairs for _ in range(k)])
        groups = [
            [p for p in verdicts[start : start + k] if p is not None]
            for start in range(0, len(verdicts), k)
        ]
        record("reasoned/verdicts", torch.tensor([p is not None for p in verdicts]).double())
        shares = [_majority_share(group) for group in groups if len(group) > 1]
        record("reasoned/majority", torch.tensor(shares))
        means = [sum(group) / len(group) if len(group) >= self.least else None for group in groups]
        low, high = self.clip, 1.0 - self.clip
        return [mean if mean is None else min(max(mean, low), high) for mean in means]

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


def _majority_share(verdicts: Sequence[float]) -> float:
    """Return the share of the verdicts in the majority; a tie (.5) never is."""
    first, second = sum(p > 0.5 for p in verdicts), sum(p < 0.5 for p in verdicts)
    return max(first, second) / len(verdicts)


class ParsedJudge(metaclass=Checked):
    """Judge that parses a rationale: 1 for the first answer, 0 for the second, 1/2 for a tie.

    The last mark counts, in any case and with any white space. A mark within an answer has no
    effect, because only the rationale is read. None without a mark; one warning then shows the
    text.

    Args:
        first_text: the mark if the first answer is better.
        second_text: the mark if the second one is better.
        tie_text: the mark if neither is better.

    Raises:
        ConfigError: one mark is a part of another.

    Source:
        Zheng et al. 2023 (MT-Bench), arXiv:2306.05685, appendix A.

    Examples:
        >>> ParsedJudge()([AnswerPair("p", "a", "b", rationale="[[1]] No: [[2]]")])
        [0.0]
    """

    def __init__(
        self,
        *,
        first_text: NonEmptyText = "[[1]]",
        second_text: NonEmptyText = "[[2]]",
        tie_text: NonEmptyText = "[[tie]]",
    ) -> None:
        self.no_verdict = NoVerdict("ParsedJudge")
        marks = [_normalise(text) for text in (first_text, second_text, tie_text)]
        self._values = dict(zip(marks, (1.0, 0.0, 0.5), strict=True))
        if any(first in second or second in first for first, second in combinations(marks, 2)):
            raise ConfigError(
                f"ParsedJudge: of the marks {marks} one is a part of another: change one"
            )
        spaced = [r"\s*".join(map(re.escape, mark)) for mark in marks]
        self._mark = re.compile("|".join(spaced), re.IGNORECASE)

    def __call__(self, pairs: Sequence[AnswerPair]) -> list[float | None]:
        """Return for each pair the verdict of its rationale."""
        marks_of_pairs = [self._mark.findall(pair.rationale) for pair in pairs]
        undecided = [p for p, marks in zip(pairs, marks_of_pairs, strict=True) if not marks]
        if undecided:
            path = self.no_verdict.path
            reason = (
                f"the rationale holds none of {[*self._values]} and ends in "
                f"{undecided[0].rationale[-60:]!r}: let the writer's template ask for one of them "
                f"at the end, raise its max_new_tokens, or set {path}first_text, {path}second_text"
            )
            self.no_verdict.warn_once(len(undecided), len(pairs), reason)
        return [self._values[_normalise(marks[-1])] if marks else None for marks in marks_of_pairs]


def _normalise(mark: str) -> str:
    """Return a mark in lower case without white space."""
    return "".join(mark.split()).lower()
