"""Choice between two options, by the probabilities of a first token or by words.

Case does not count, nor do white space, quotes, emphasis and brackets in front of an option, or
what is no letter or digit behind it: ``Yes.``, ``"yes"``, ``**YES**`` are all ``yes``.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping

# Marks that may stand in front of an option, besides white space and invisible characters.
_QUOTES = "\"'`*_([{\u201c\u201d\u2018\u2019\u201e\u00ab\u00bb"
_LEAD = f"{_QUOTES} \t\n\r\f\v\u00a0\u200b\ufeff"
# Beginnings of the spellings that probabilities are summed over.
_LEADS = ("", "\n", " ", *(space + mark for mark in "\"'`*([" for space in ("", " ")), "**", " **")
# Both options, one behind the other: a model that repeats the question has chosen neither.
_JOINED = r"[\W_]*(?:or|and|[/|&])[\W_]*"


def spellings(option: str) -> list[str]:
    r"""Return the texts by which a model says an option, the plain one first.

    Examples:
        >>> spellings("yes")[:4], spellings("1")[:4]
        (['yes', 'Yes', 'YES', '\nyes'], ['1', '\n1', ' 1', '"1'])
    """
    cases = dict.fromkeys((option, option.lower(), option.capitalize(), option.upper()))
    return list(dict.fromkeys(lead + case for lead in _LEADS for case in cases))


def plain_option(option: str) -> str:
    """Return an option in lower case without marks in front; itself if it is a mark.

    Examples:
        >>> plain_option('"Yes'), plain_option("*")
        ('yes', '*')
    """
    text = _normal(option)
    return text.lstrip(_LEAD) or text


def option_masses(first: Mapping[str, float], one: str, other: str) -> tuple[float, float]:
    """Return the probabilities of the tokens that begin either of two options.

    A token that begins both counts for none.

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
    """Return ``p(one) / (p(one) + p(other))``; None where both have less than ``least_mass``.

    Examples:
        >>> share_of((0.375, 0.125), 0.5), share_of((0.1, 0.0), 0.5)
        (0.75, None)
    """
    total = sum(masses)
    return masses[0] / total if 0 < total >= least_mass else None


def said_option(text: str, one: str, other: str) -> float | None:
    """1 where a text begins with one option, 0 with the other; None where it does with neither.

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
    """Return a text in lower case, full-width letters as the usual ones."""
    return unicodedata.normalize("NFKC", text).lower()


def _stripped(text: str, option: str) -> str:
    """Return a text without the quotes in front of an option, but for the option's own."""
    own = option[: len(option) - len(option.lstrip(_LEAD))]
    return _normal(text).lstrip("".join(set(_LEAD) - set(own)))


def _behind(text: str, option: str) -> str | None:
    """Return the text behind an option that begins a text; None if it does not."""
    option = _normal(option)
    stripped = _stripped(text, option)
    return stripped[len(option) :] if stripped.startswith(option) else None


def _goes_on(rest: str, other: str) -> bool:
    """Return whether the text behind an option makes another word or names the other option."""
    if rest[:1].isalnum() or re.match(r"[.,]\d", rest):
        return True
    joined = re.match(_JOINED + re.escape(plain_option(other)), rest)
    return joined is not None and not rest[joined.end() : joined.end() + 1].isalnum()


def _begins(token: str, option: str) -> bool:
    """Return whether a token is a beginning of an option, or the whole of it."""
    text, whole = _stripped(token, _normal(option)), _normal(option)
    if whole.startswith(text):
        return bool(text)
    rest = _behind(token, option)
    return rest is not None and not _goes_on(rest, "")
