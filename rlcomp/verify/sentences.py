"""Sentences and words of English texts, by rules without a model."""

from __future__ import annotations

import re

# A full stop after one of these ends no sentence.
_ABBREVIATIONS = re.compile(
    r"(?:[a-hj-z]|mr|mrs|ms|dr|prof|sr|jr|st|vs|etc|e\.g|i\.e|u\.s|u\.k|inc|ltd|co|corp|fig|gen|rep|sen"
    r"|gov|dept|est|approx|jan|feb|mar|apr|jun|jul|aug|sept|oct|nov|dec|mt|capt|col|lt|sgt|rev|hon)"
)
_QUOTES = "\"'\u2018\u2019\u201c\u201d"
_END = re.compile(
    rf"(?<![.!?\u2026])[.!?\u2026]+[{_QUOTES})\]*]*\s+(?=[{_QUOTES}(\[*]*[^\s{_QUOTES}(\[*])"
)
_LAST_WORD = re.compile(r"[^\s(\[]*\Z")
_TOKEN = re.compile(r"[^\W_]+(?:[-.&/][^\W_]+)*")


def count_sentences(text: str) -> int:
    """Count the sentences of a text.

    A sentence ends with ``.``, ``!``, ``?`` or an ellipsis, with closing quotes and brackets, if
    white space follows. A full stop after an abbreviation or an initial ends no sentence, nor does
    an ellipsis before a lower-case letter. The rest of the text counts as a sentence.

    Examples:
        >>> count_sentences('Dr. A. Smith said "no". Why? because... well')
        3
    """
    text = text.strip()
    ends = [end for end in _END.finditer(text) if _divides(text, end)]
    return len(ends) + bool(text)


def _divides(text: str, end: re.Match[str]) -> bool:
    if end[0].startswith(("..", "\u2026")):
        return not text[end.end() :].lstrip(_QUOTES + "([*")[:1].islower()
    word = _LAST_WORD.search(text[max(0, end.start() - 40) : end.start()])
    before = word[0].lower().strip(_QUOTES) if word else ""
    return not end[0].startswith(".") or not _ABBREVIATIONS.fullmatch(before)


def words(text: str) -> list[str]:
    """Return the words of a text: letters and digits, joined by ``-``, ``.``, ``&`` or ``/``.

    Examples:
        >>> words("The U.S. isn't AT&T, well-known.")
        ['The', 'U.S', 'isn', 't', 'AT&T', 'well-known']
    """
    return _TOKEN.findall(text)
