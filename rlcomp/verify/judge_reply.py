"""Verdicts in a judge's reply: scores by id, or a choice between two options.

Options are compared without case. White space, quotes, emphasis and brackets before an option are
ignored, and so are signs after it: ``Yes.``, ``"yes"``, ``**YES**`` are all ``yes``.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Mapping
from typing import Any

# Characters at the end of a reply that are read: nested braces take a time that grows with their
# number.
_LONGEST = 2**16
_DECIMAL = re.compile(r"[0-9]{1,9}(?:\.[0-9]{0,30})?|\.[0-9]{1,30}", re.ASCII)
# Larger than all ids; float() of a very long integer would raise.
_LARGEST = 10**9


def scores_by_id(reply: str, count: int) -> list[float] | None:
    """Return the scores of ``{"scores": [{"id": 1, "score": 0.5}, ...]}``, ids 1 to ``count``.

    The last JSON object of the reply with the key ``scores`` counts; there may be text around it.
    Ids and scores may be written as texts (``"1"``, ``"0.5"``). None if there is no such object, if
    an id is missing, duplicate or unknown, or if a score is not a number in [0, 1]: missing scores
    are not guessed.

    Examples:
        >>> scores_by_id('So: {"scores": [{"id": 2, "score": 1}, {"id": 1, "score": 0.25}]}', 2)
        [0.25, 1.0]
        >>> scores_by_id('{"scores": [{"id": 1, "score": 0.5}]}', 2)
    """
    entries = _last_scores(reply[-_LONGEST:])
    if not isinstance(entries, list) or len(entries) != count:
        return None
    scores = dict(filter(None, map(_entry, entries)))
    if scores.keys() != {*range(1, count + 1)}:
        return None
    return [scores[number] for number in range(1, count + 1)]


def _last_scores(reply: str) -> Any:  # noqa: ANN401 - JSON
    """Return the value of ``scores`` in the last object that has this key."""
    decoder, scores, start = json.JSONDecoder(), None, reply.find("{")
    while start >= 0:
        try:
            value, end = decoder.raw_decode(reply, start)
        except (ValueError, RecursionError):
            end = start + 1
        else:
            scores = value.get("scores", scores)
        start = reply.find("{", end)
    return scores


def _entry(entry: object) -> tuple[int, float] | None:
    """Return id and score of an entry; None if it lacks one of them."""
    if not isinstance(entry, dict):
        return None
    number, score = _number(entry.get("id")), _number(entry.get("score"))
    if number is None or score is None or not number.is_integer():
        return None
    return (int(number), score) if 0 <= score <= 1 else None


def _number(value: object) -> float | None:
    """Return a JSON number, or the number that a text spells; None for anything else."""
    if isinstance(value, str):
        return float(value) if _DECIMAL.fullmatch(value.strip()) else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if abs(value) <= _LARGEST else None  # NaN fails the comparison


# Marks that may precede an option, besides white space and invisible characters.
_QUOTES = "\"'`*_([{\u201c\u201d\u2018\u2019\u201e\u00ab\u00bb"
_LEAD = f"{_QUOTES} \t\n\r\f\v\u00a0\u200b\ufeff"
# Beginnings of the spellings; their probabilities are summed.
_LEADS = ("", "\n", " ", *(space + mark for mark in "\"'`*([" for space in ("", " ")), "**", " **")
# Between both options: a model that repeats the question has chosen neither.
_ALTERNATIVE = r"[\W_]*(?:or|and|[/|&])[\W_]*"


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
    text = _normalise(option)
    return text.lstrip(_LEAD) or text


def option_masses(
    probabilities: Mapping[str, float], first: str, second: str
) -> tuple[float, float]:
    """Return the probability of each of two options: the sum over the tokens that begin it.

    A token that begins both options counts for neither.

    Args:
        probabilities: probabilities of a reply's first token, by token.
        first: one option.
        second: the other option.

    Examples:
        >>> option_masses({"Yes": 0.25, ' "yes': 0.125, "no": 0.125, "So": 0.5}, "yes", "no")
        (0.375, 0.125)
    """
    masses = [0.0, 0.0]
    for token, p in probabilities.items():
        matches = [_begins(token, first), _begins(token, second)]
        if matches[0] != matches[1]:
            masses[matches.index(True)] += p
    return masses[0], masses[1]


def option_share(masses: tuple[float, float], least_mass: float) -> float | None:
    """Return the first option's share of both masses; None if their sum is below ``least_mass``.

    Examples:
        >>> option_share((0.375, 0.125), 0.5), option_share((0.1, 0.0), 0.5)
        (0.75, None)
    """
    total = sum(masses)
    return masses[0] / total if 0 < total >= least_mass else None


def leading_option(text: str, first: str, second: str) -> float | None:
    """Return 1 if a text begins with the first option, 0 if with the second, None if with neither.

    A text that names the other option beside the first one (``1 or 2``) begins with neither.

    Examples:
        >>> leading_option(" 2, because ...", "1", "2"), leading_option("Both are good", "1", "2")
        (0.0, None)
        >>> leading_option("12", "1", "2"), leading_option("**Yes.**", "yes", "no")
        (None, 1.0)
    """
    for option, alternative, value in ((first, second, 1.0), (second, first, 0.0)):
        rest = _rest_after(text, option)
        if rest is not None and not _continues(rest, alternative):
            return value
    return None


def _normalise(text: str) -> str:
    """Return a text in lower case, with full-width letters as usual ones."""
    return unicodedata.normalize("NFKC", text).lower()


def _strip_marks(text: str, option: str) -> str:
    """Strip the marks before an option from a text, except the option's own marks."""
    own_marks = option[: len(option) - len(option.lstrip(_LEAD))]
    return _normalise(text).lstrip("".join(set(_LEAD) - set(own_marks)))


def _rest_after(text: str, option: str) -> str | None:
    """Return the rest of a text that begins with an option; None if it does not."""
    option = _normalise(option)
    stripped = _strip_marks(text, option)
    return stripped[len(option) :] if stripped.startswith(option) else None


def _continues(rest: str, other: str) -> bool:
    """Return whether the text after an option makes another word or names the other option."""
    if rest[:1].isalnum() or re.match(r"[.,]\d", rest):
        return True
    alternative = re.match(_ALTERNATIVE + re.escape(plain_option(other)), rest)
    return alternative is not None and not rest[alternative.end() : alternative.end() + 1].isalnum()


def _begins(token: str, option: str) -> bool:
    """Return whether a token is the beginning of an option, or the whole option."""
    option = _normalise(option)
    text = _strip_marks(token, option)
    if option.startswith(text):
        return bool(text)
    rest = _rest_after(token, option)
    # Without the other option: a word or sign that joins two options (``yes/``) is enough.
    return rest is not None and not _continues(rest, "")
