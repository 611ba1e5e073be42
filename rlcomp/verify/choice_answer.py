"""Choice between two options, by the probabilities of a first token or by words.

Case does not count. White space, quotes, emphasis and brackets before an option do not count, nor
do signs other than letters and digits after it: ``Yes.``, ``"yes"``, ``**YES**`` are all ``yes``.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping

# Marks that may precede an option, besides white space and invisible characters.
_QUOTES = "\"'`*_([{\u201c\u201d\u2018\u2019\u201e\u00ab\u00bb"
_LEAD = f"{_QUOTES} \t\n\r\f\v\u00a0\u200b\ufeff"
# Beginnings of the spellings; their probabilities are summed.
_LEADS = ("", "\n", " ", *(space + mark for mark in "\"'`*([" for space in ("", " ")), "**", " **")
# Between both options: a model that repeats the question has chosen neither.
_JOINED = r"[\W_]*(?:or|and|[/|&])[\W_]*"


def spellings(option: str) -> list[str]:
    r"""Return the spellings of an option, the plain one first.

    Examples:
        >>> spellings("yes")[:4], spellings("1")[:4]
        (['yes', 'Yes', 'YES', '\nyes'], ['1', '\n1', ' 1', '"1'])
    """
    cases = dict.fromkeys((option, option.lower(), option.capitalize(), option.upper()))
    return list(dict.fromkeys(lead + case for lead in _LEADS for case in cases))


def plain_option(option: str) -> str:
    """Return an option in lower case without marks before it; a mark itself is unchanged.

    Examples:
        >>> plain_option('"Yes'), plain_option("*")
        ('yes', '*')
    """
    text = _normal(option)
    return text.lstrip(_LEAD) or text


def option_masses(first: Mapping[str, float], one: str, other: str) -> tuple[float, float]:
    """Return the probability of each option: the sum over the tokens that begin it.

    A token that begins both options counts for neither.

    Examples:
        >>> option_masses({"Yes": 0.25, ' "yes': 0.125, "no": 0.125, "So": 0.5}, "yes", "no")
        (0.375, 0.125)
    """
    masses = [0.0, 0.0]
    for token, p in first.items():
        matches = [_begins(token, one), _begins(token, other)]
        if matches[0] != matches[1]:
            masses[matches.index(True)] += p
    return masses[0], masses[1]


def share_of(masses: tuple[float, float], least_mass: float) -> float | None:
    """Return ``p(one) / (p(one) + p(other))``; None if the sum is below ``least_mass``.

    Examples:
        >>> share_of((0.375, 0.125), 0.5), share_of((0.1, 0.0), 0.5)
        (0.75, None)
    """
    total = sum(masses)
    return masses[0] / total if 0 < total >= least_mass else None


def said_option(text: str, one: str, other: str) -> float | None:
    """Return 1 if a text begins with ``one``, 0 if with ``other``, None if with neither.

    Examples:
        >>> said_option(" 2, because ...", "1", "2"), said_option("Both are good", "1", "2")
        (0.0, None)
        >>> said_option("12", "1", "2"), said_option("**Yes.**", "yes", "no")
        (None, 1.0)
    """
    for option, against, value in ((one, other, 1.0), (other, one, 0.0)):
        rest = _behind(text, option)
        if rest is not None and not _goes_on(rest, against):
            return value
    return None


def _normal(text: str) -> str:
    """Return a text in lower case, with full-width letters as usual ones."""
    return unicodedata.normalize("NFKC", text).lower()


def _stripped(text: str, option: str) -> str:
    """Strip the marks before an option from a text, except the option's own marks."""
    own = option[: len(option) - len(option.lstrip(_LEAD))]
    return _normal(text).lstrip("".join(set(_LEAD) - set(own)))


def _behind(text: str, option: str) -> str | None:
    """Return the rest of a text that begins with an option; None if it does not."""
    option = _normal(option)
    stripped = _stripped(text, option)
    return stripped[len(option) :] if stripped.startswith(option) else None


def _goes_on(rest: str, other: str) -> bool:
    """Return whether the text after an option makes another word or names the other option."""
    if rest[:1].isalnum() or re.match(r"[.,]\d", rest):
        return True
    joined = re.match(_JOINED + re.escape(plain_option(other)), rest)
    return joined is not None and not rest[joined.end() : joined.end() + 1].isalnum()


def _begins(token: str, option: str) -> bool:
    """Return whether a token is the beginning of an option, or the whole option."""
    text, whole = _stripped(token, _normal(option)), _normal(option)
    if whole.startswith(text):
        return bool(text)
    rest = _behind(token, option)
    return rest is not None and not _goes_on(rest, "")
