"""Notes that an agent writes between tags."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rlcomp.verify.short_answer import short_answer


def notes_of(text: str, tag: str) -> str:
    """Return the texts between the tags, joined by spaces.

    Examples:
        >>> notes_of("<refine>Ann</refine> so <refine>in 1901</refine><refine>x", "refine")
        'Ann in 1901'
    """
    name = re.escape(tag)
    return " ".join(re.findall(rf"(?s)<{name}>((?:(?!</?{name}>).)*)</{name}>", text))


def notes_hold(text: str, tag: str, answers: Sequence[str]) -> bool:
    """Return whether the notes hold a gold answer, as whole words in one piece.

    Examples:
        >>> notes_hold("<refine>born in 2013</refine>", "refine", ["13"])
        False
    """
    gold = [answer for answer in answers if answer.strip()]
    return bool(gold) and short_answer(notes_of(text, tag), gold, metric="contains") == 1.0
