"""Script-consistency reward."""

from __future__ import annotations

import unicodedata
from collections import Counter

from rlcomp.interfaces.reward import TextReward


class ScriptConsistency(TextReward):
    """The share of the response's letters that are in the script of the prompt.

    ``R = letters in the script / letters``; the script of the prompt is that of most of its letters
    (the first of equals). A letter's script is the first word of its Unicode name (``LATIN``,
    ``CYRILLIC``, ``CJK``). Of responses too short for ``reward=language_consistency``, which tells
    languages of one script apart.

    Reads and writes: see :class:`rlcomp.interfaces.reward.TextReward`; the part is
    ``script_consistency``. Without letters, in prompt or response, it cannot be judged.

    Source:
        Language consistency as a reward: Mistral 2025 (Magistral), arXiv:2506.10910, section 2.2.4.

    Examples:
        >>> ScriptConsistency().score("ab>", "a-b\u0431", "")
        0.6666666666666666
    """

    name = "script_consistency"

    def score(self, prompt: str, response: str, answer: str) -> float | None:
        """The share, from 0 to 1."""
        asked, used = Counter(_scripts(prompt)), Counter(_scripts(response))
        if not asked or not used:
            return None
        return used[asked.most_common(1)[0][0]] / used.total()


def _scripts(text: str) -> list[str]:
    return [unicodedata.name(letter, "?").split()[0] for letter in text if letter.isalpha()]
