"""Language identification of texts (langdetect), deterministic."""

from __future__ import annotations

import functools
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
    long = [(line, letters) for line, letters in lines if letters >= _LETTERS]
    short = [(line, letters) for line, letters in lines if letters < _LETTERS]
    rest = ("\n".join(line for line, _ in short), sum(letters for _, letters in short))
    counted = [*long, rest] if rest[1] >= _LETTERS or not long else long
    total = sum(letters for _, letters in counted)
    inside = sum(letters for line, letters in counted if _is_in(line, language))
    return inside / total if total else None


# Fewer letters say little about their language.
_LETTERS = 20


def _is_in(line: str, language: str) -> bool:
    return (detect_language(line) or "").removesuffix("-cn").removesuffix("-tw") == language
