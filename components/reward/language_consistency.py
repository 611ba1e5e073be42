"""Language-consistency reward (R1)."""

from __future__ import annotations

from collections.abc import Mapping

from rlcomp.arguments import NonEmptyText
from rlcomp.errors import require
from rlcomp.interfaces.reward import TextReward
from rlcomp.verify.language import language_share


class LanguageConsistency(TextReward):
    """Reward equal to the share of the response, thought included, in the required language.

    ``R = letters of lines in the language / letters of all lines``. A response is correct if all
    are in the language; without letters it cannot be judged.

    Reads and writes: see :class:`rlcomp.interfaces.reward.TextReward`; the part is
    ``language_consistency``.

    Args:
        language: a language such as ``en`` or ``zh``; an example's column ``language`` replaces it.

    Raises:
        MissingExtra: langdetect is not installed (extra ``verify``).

    Source:
        DeepSeek-AI 2025 (R1), arXiv:2501.12948, section 2.3.2.
    """

    name = "language_consistency"

    def __init__(self, *, language: NonEmptyText = "en") -> None:
        super().__init__()
        require("langdetect", "verify")
        self.language = language

    def score_row(self, row: Mapping[str, object]) -> float | None:
        """Return the share of the response in the language."""
        return language_share(str(row["response"]), str(row.get("language", self.language)))
