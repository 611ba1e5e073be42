"""Scores of short answers: exact match, F1 of words, containment."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Literal

_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
# Punctuation to remove. The sign and the point of a number stay: otherwise -5 and 12.5 would be 5
# and 125. The signs of a fraction, an exponent and a base stay too.
_PUNCTUATION = re.compile(
    r"(?!-(?<!\w-)\.?[0-9])(?!\.(?<![A-Za-z]\.)[0-9])(?![/_^](?<=[0-9].)\{?[0-9])[!-/:-@\[-`{-~]"
)
# Relations beside a number: > 7, ~7, != 7, 7 <, 7+.
_RELATION = re.compile(
    r"(?:[<>~]=?|[!/]=|=[<>/]=?)\s*(?=[-$]?\.?[0-9])|(?<=[0-9])\s*(?:[<>~]=?|[!/]=|\+(?!\s*[0-9]))"
)
# Words that deny or bound the gold words after them.
_DENIAL_WORDS = (
    "not never isnt arent wasnt cannot cant except than least most ≠ ¬ neq ne neg geq leq sim"
)
_DENIALS = frozenset(_DENIAL_WORDS.split())


def short_answer(
    answer: str,
    gold: Sequence[str],
    *,
    metric: Literal["exact", "f1", "contains"] = "exact",
) -> float:
    """Score an answer against the best of several gold ones, after SQuAD's normalisation.

    Unlike in SQuAD, a number keeps its sign and its point: -5 is not 5, and 12.5 not 125. A
    relation beside a number stays (``> 7`` is not 7).

    ``exact``: 1 if they are equal. ``f1``: ``2 p r / (p + r)``, with ``p`` the share of the
    answer's words that are gold, ``r`` the share of the gold words in the answer. ``contains``: 1
    if the answer holds the gold words in one piece, as whole words (``art`` is not in ``start``),
    not after a denial (``not art``). Two answers without words are equal only as whole texts;
    ``contains`` is 0 for a gold answer without words.

    Args:
        answer: the response's answer.
        gold: gold answers, at least one.
        metric: ``exact``, ``f1`` or ``contains``.

    Source:
        Rajpurkar et al. 2016, arXiv:1606.05250; as a search reward Jin et al. 2025 (Search-R1),
        arXiv:2503.09516.

    Examples:
        >>> short_answer("The Eiffel Tower!", ["eiffel tower"])
        1.0
        >>> short_answer("tower of Paris", ["Eiffel tower"], metric="f1")
        0.4
    """
    return max(_METRICS[metric](answer, gold_answer) for gold_answer in gold)


def normalized_words(text: str) -> list[str]:
    """Return the words of a text in lower case, without punctuation and English articles.

    A relation beside a number, such as ``>``, becomes the word ``≠``.

    Examples:
        >>> normalized_words("The U.S. and a well-known art")
        ['us', 'and', 'wellknown', 'art']
        >>> normalized_words("-1,250.5, in 2020-21.")
        ['-1250.5', 'in', '202021']
    """
    related = _RELATION.sub(" ≠ ", text.lower())
    return _ARTICLES.sub(" ", _PUNCTUATION.sub("", related)).split()


def _exact(answer: str, gold: str) -> float:
    words = normalized_words(gold)
    return float(normalized_words(answer) == words if words else answer.strip() == gold.strip())


def _f1(answer: str, gold: str) -> float:
    words, gold_words = Counter(normalized_words(answer)), Counter(normalized_words(gold))
    if not words or not gold_words:
        return _exact(answer, gold)
    return 2 * (words & gold_words).total() / (words.total() + gold_words.total())


def _contains(answer: str, gold: str) -> float:
    gold_words, words = normalized_words(gold), normalized_words(answer)
    starts = range(len(words) - len(gold_words) + 1) if gold_words else ()
    return float(
        any(
            words[start : start + len(gold_words)] == gold_words
            and (start == 0 or words[start - 1] not in _DENIALS)
            for start in starts
        )
    )


_METRICS = {"exact": _exact, "f1": _f1, "contains": _contains}


def notes_of(text: str, tag: str) -> str:
    """Return an agent's notes: the texts between the tags, joined by spaces.

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
