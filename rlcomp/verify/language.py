"""Languages, sentences and repetitions of a text."""

from __future__ import annotations

import functools
import re
from collections.abc import Hashable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from rlcomp.errors import require


def _library() -> ModuleType:
    return require("langdetect", "verify")


@functools.cache
def _profiles() -> Any:  # noqa: ANN401 - the library has no types
    library = _library()
    factory = library.DetectorFactory()
    factory.load_profile(str(Path(str(library.__file__)).parent / "profiles"))
    # Detection is random; the seed makes it a function of the text.
    factory.seed = 0
    return factory


def detect_language(text: str) -> str | None:
    """Return the most probable language of a text, such as ``en`` or ``zh-cn``; None if unknown.

    It is unknown without letters, and if all letters belong to web addresses or to a script that
    no profile knows.

    Raises:
        MissingExtra: langdetect is not installed (extra ``verify``).

    Source:
        langdetect (a port of Shuyo's language-detection), 55 languages.
    """
    if not any(character.isalpha() for character in text):
        return None
    detector = _profiles().create()
    detector.append(text)
    try:
        return str(detector.detect())
    except _library().LangDetectException:  # raised for a text without features
        return None


def language_share(text: str, language: str) -> float | None:
    """Return the share of a text's letters in a language: R1's language consistency.

    Each line with at least 20 letters counts as one language. Shorter lines say little about their
    language and are joined into one line; if that has fewer than 20 letters, it counts only if
    there is no other line. A line of unknown language is in no language. Chinese is ``zh`` in
    every script.

    Args:
        text: a response, its thought included.
        language: a code such as ``en``.

    Returns:
        In [0, 1]; None for a text without letters.

    Raises:
        MissingExtra: langdetect is not installed (extra ``verify``).

    Source:
        DeepSeek-AI 2025 (R1), arXiv:2501.12948, section 2.3.2.
    """
    lines = [(line, sum(map(str.isalpha, line))) for line in text.splitlines()]
    long_lines = [(line, letters) for line, letters in lines if letters >= _MIN_LETTERS]
    short_lines = [(line, letters) for line, letters in lines if letters < _MIN_LETTERS]
    joined = "\n".join(line for line, _ in short_lines)
    joined_letters = sum(letters for _, letters in short_lines)
    if joined_letters >= _MIN_LETTERS or not long_lines:
        long_lines.append((joined, joined_letters))
    total = sum(letters for _, letters in long_lines)
    inside = sum(letters for line, letters in long_lines if _is_in(line, language))
    return inside / total if total else None


# Letters of a line whose language counts; fewer letters say little about it.
_MIN_LETTERS = 20


def _is_in(line: str, language: str) -> bool:
    return (detect_language(line) or "").removesuffix("-cn").removesuffix("-tw") == language


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
    ends = [end for end in _END.finditer(text) if _ends_sentence(text, end)]
    return len(ends) + bool(text)


def _ends_sentence(text: str, end: re.Match[str]) -> bool:
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


def repetition(items: Sequence[Hashable], size: int) -> float:
    """Compute ``1 - distinct / all`` n-grams, in [0, 1); 0 without n-grams or repeated ones.

    Args:
        items: tokens or words.
        size: n, at least 1.

    Source:
        Yeo et al. 2025, arXiv:2502.03373, counted as in TRL's ``get_repetition_penalty_reward``.

    Examples:
        >>> repetition([5, 5, 5, 5, 5], 2), repetition([1, 2], 3)
        (0.75, 0.0)
    """
    grams = [tuple(items[start : start + size]) for start in range(len(items) - size + 1)]
    return 1 - len(set(grams)) / len(grams) if grams else 0.0
