"""Language identification of texts (langdetect), deterministic."""

from __future__ import annotations

import functools
from pathlib import Path
from types import ModuleType
from typing import Any

from rlcomp.errors import require


@functools.cache
def _profiles() -> Any:  # noqa: ANN401 - of a library without types
    library: ModuleType = require("langdetect", "verify")
    factory = library.DetectorFactory()
    factory.load_profile(str(Path(str(library.__file__)).parent / "profiles"))
    # Its detection draws at random; the seed makes it a function of the text.
    factory.seed = 0
    return factory


def detect_language(text: str) -> str | None:
    """The most probable language of a text, such as ``en`` or ``zh-cn``; None if it has no letters.

    Raises:
        MissingExtra: langdetect is not installed (extra ``verify``).

    Source:
        langdetect (a port of Shuyo's language-detection), 55 languages.
    """
    if not any(character.isalpha() for character in text):
        return None
    detector = _profiles().create()
    detector.append(text)
    return str(detector.detect())
