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
def _profiles() -> Any:  # noqa: ANN401 - of a library without types
    library = _library()
    factory = library.DetectorFactory()
    factory.load_profile(str(Path(str(library.__file__)).parent / "profiles"))
    # Its detection draws at random; the seed makes it a function of the text.
    factory.seed = 0
    return factory


def detect_language(text: str) -> str | None:
    """The most probable language of a text, such as ``en`` or ``zh-cn``; None if nothing tells it.

    Nothing does without letters, nor where all of them are an address of the web or of a script
    that no profile knows.

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
    except _library().LangDetectException:  # of its one kind here: no features in the text
        return None


def language_share(text: str, language: str) -> float | None:
    """The share of a text that is in a language, by letters: R1's language consistency.

    The text is taken line by line, and each line with at least 20 letters as written in one
    language. Shorter ones, of which too little is known, are taken together as one; of fewer than
    20 letters together they do not count, unless there is no other. A line that tells no language
    is in none. Chinese is ``zh``, whatever its script.

    Args:
        text: a response, its thought included.
        language: such as ``en``.

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
    said = sum(letters for line, letters in counted if _is_in(line, language))
    return said / total if total else None


# Fewer letters tell little of their language.
_LETTERS = 20


def _is_in(line: str, language: str) -> bool:
    return (detect_language(line) or "").removesuffix("-cn").removesuffix("-tw") == language
