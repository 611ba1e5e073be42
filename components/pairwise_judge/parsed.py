"""Verdict that is written at the end of a rationale."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rlcomp.arguments import Checked, NonEmptyText
from rlcomp.errors import ConfigError
from rlcomp.interfaces.pairwise_judge import Shown


class Parsed(metaclass=Checked):
    """The verdict in a rationale: 1 for the first answer, 0 for the second, 1/2 for a tie.

    The last of the three marks counts, and only what the judge wrote is read, so that an answer
    that holds a mark decides nothing. None where there is none.

    Args:
        first_text: says that the first answer is better.
        second_text: says that the second one is.
        tie_text: says that neither is.

    Raises:
        ConfigError: one mark is a part of another.

    Source:
        Zheng et al. 2023 (MT-Bench), arXiv:2306.05685, appendix A.

    Examples:
        >>> says = [Shown("p", "a", "b", rationale=text) for text in ("[[1]] No: [[2]]", "Hm.")]
        >>> Parsed()(says)
        [0.0, None]
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
        self._values = {first_text: 1.0, second_text: 0.0, tie_text: 0.5}
        marks = [first_text, second_text, tie_text]
        if any(one in other for n, one in enumerate(marks) for other in marks[:n] + marks[n + 1 :]):
            raise ConfigError(f"Parsed: of the marks {marks} one is a part of another: change one")
        self._mark = re.compile("|".join(map(re.escape, marks)))

    def __call__(self, pairs: Sequence[Shown]) -> list[float | None]:
        """For each pair what its rationale says in the end."""
        said = [self._mark.findall(pair.rationale) for pair in pairs]
        return [self._values[marks[-1]] if marks else None for marks in said]
