"""Script-consistency reward."""

from __future__ import annotations

import unicodedata
from collections import Counter

from rlcomp.interfaces.reward import TextReward


class ScriptConsistency(TextReward):
    """Reward equal to the share of the response's letters in the script of the prompt.

    ``R = letters in the script / letters``. The script of the prompt is the most frequent one of
    its letters (the first of equals). A letter's script is the first word of its Unicode name
    (``LATIN``, ``CYRILLIC``, ``CJK``). It serves responses that are too short for
    ``reward=language_consistency``, which also distinguishes languages of one script.

    Reads and writes: see :class:`rlcomp.interfaces.reward.TextReward`; the part is
    ``script_consistency``. Without letters in prompt or response there is no verdict.

    Source:
        Language consistency as a reward: Mistral 2025 (Magistral), arXiv:2506.10910, section 2.2.4.

    Examples:
        >>> ScriptConsistency().score("ab>", "a-b\u0431", "")
        0.6666666666666666
    """

    name = "script_consistency"

    def score(self, prompt: str, response: str, answer: str) -> float | None:
        """Return the share, from 0 to 1."""
        required, used = Counter(_scripts(prompt)), Counter(_scripts(response))
        if not required or not used:
            return None
        return used[required.most_common(1)[0][0]] / used.total()


def _scripts(text: str) -> list[str]:
    return [unicodedata.name(letter, "?").split()[0] for letter in text if letter.isalpha()]
