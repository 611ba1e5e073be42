"""Judge that reads the verdict at the end of a rationale."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rlcomp.arguments import Checked, NonEmptyText
from rlcomp.errors import ConfigError
from rlcomp.interfaces.judge import AnswerPair, NoVerdict


class ParsedJudge(metaclass=Checked):
    """Judge that reads a rationale: 1 for the first answer, 0 for the second, 1/2 for a tie.

    The last of the three marks counts. Only the judge's own text is read, so that a mark within an
    answer has no effect. Case and white space within a mark do not matter. None if there is no
    mark; one warning then shows the text.

    Args:
        first_text: the mark that the first answer is better.
        second_text: the mark that the second one is better.
        tie_text: the mark that neither is better.

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
        self.first_text = first_text
        self.second_text = second_text
        self.tie_text = tie_text
        self.no_verdict = NoVerdict("ParsedJudge")
        marks = [_plain(text) for text in (first_text, second_text, tie_text)]
        self._values = dict(zip(marks, (1.0, 0.0, 0.5), strict=True))
        if any(one in other for n, one in enumerate(marks) for other in marks[:n] + marks[n + 1 :]):
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
        return [self._values[_plain(marks[-1])] if marks else None for marks in marks_of_pairs]


def _plain(mark: str) -> str:
    return "".join(mark.split()).lower()
