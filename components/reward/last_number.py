"""Final-number verifier (GSM8K)."""

from __future__ import annotations

import re
from fractions import Fraction

from rlcomp.arguments import NonNegativeFloat
from rlcomp.interfaces.reward import TextReward

# Up to the last marker: the greedy dot looks from the end, in one pass.
_MARKED = re.compile(r"(?s:.*)(?:####|(?<!\w)A:|(?i:answer is))")
# A minus counts only where it is not a subtraction; commas only between groups of three digits.
# No two ways to match the same text: time stays linear in hostile input.
_WHOLE = r"(?:[0-9]{1,3}(?:,[0-9]{3}(?![0-9]))+|[0-9]+)"
_NUMBER = re.compile(
    rf"(?P<minus>(?<![\w)\]])-)?(?P<top>{_WHOLE}(?:\.[0-9]+)?|\.[0-9]+)"
    r"(?:[eE](?P<power>[+-]?[0-9]+)(?!\w))?(?:/(?P<bottom>[0-9]+))?"
)
# Longer ones are refused: no answer needs them, and exact arithmetic on them is slow.
_MOST_DIGITS = 1000


class LastNumber(TextReward):
    r"""1 if the response's final number equals the answer's, else 0.

    The final number is the first one after the last ``####``, ``A:`` or ``answer is``; without such
    a marker the last number of the text. Gold answers are read in the same way, so a whole worked
    solution may stand there. ``$``, ``%``, thousands commas and a full stop at the end do not
    matter, ``5.0`` is 5, ``.5`` is a half, ``1.5e-3`` is 0.0015, a typographic minus is a minus and
    ``3/4`` is one number. A response without a number scores 0; an answer without one makes the
    row invalid.

    Reads and writes: see :class:`rlcomp.interfaces.reward.TextReward`; the part is ``last_number``.

    Args:
        tolerance: largest absolute difference that still counts as equal.

    Source:
        The task: Cobbe et al. 2021, arXiv:2110.14168.
    """

    name = "last_number"

    def __init__(self, *, tolerance: NonNegativeFloat = 1e-6) -> None:
        super().__init__()
        self.tolerance = tolerance

    def score(self, prompt: str, response: str, answer: str) -> float | None:
        """1 if both final numbers are equal, else 0; None if the answer has none."""
        gold = final_number(answer)
        if gold is None:
            return None
        given = final_number(response)
        return float(given is not None and abs(given - gold) <= self.tolerance)


def final_number(text: str) -> Fraction | None:
    """The final number of a text, exactly; None if there is none.

    Examples:
        >>> final_number("18 - 5 = 13, so the answer is $1,234.50.")
        Fraction(2469, 2)
    """
    text = text.replace("\u2212", "-").replace("$", "")
    marked = _MARKED.match(text)
    if marked is not None:
        return _value(_NUMBER.search(text, marked.end()))
    last = None
    for match in _NUMBER.finditer(text):
        last = match
    return _value(last)


def _value(match: re.Match[str] | None) -> Fraction | None:
    if match is None or len(match[0]) > _MOST_DIGITS:
        return None
    top = Fraction(match["top"].replace(",", ""))
    power, bottom = int(match["power"] or 0), int(match["bottom"] or 1)
    if bottom == 0 or abs(power) > _MOST_DIGITS:
        return None
    return (-top if match["minus"] else top) * Fraction(10) ** power / bottom
