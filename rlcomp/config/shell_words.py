"""Words of a command line as they were typed, and as they are typed in a shell."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rlcomp.config.base_model import with_base


def as_typed(words: Sequence[str]) -> list[str]:
    """Return a command line without the words that ``base=DIR`` stands for."""
    own = [*words]
    return own[:-2] if with_base(own[:-2]) == own else own


def overrides_in(words: Sequence[str]) -> list[str]:
    """Return the words of a command line that set something."""
    return [word for word in words if "=" in word and not word.startswith("-")]


def whole_line(words: Sequence[str]) -> str:
    """Return a command line, each word once, as it is typed in a shell."""
    return " ".join(["rlcomp", *map(in_shell, dict.fromkeys(words))])


def in_shell(word: str) -> str:
    r"""Return a word as it is typed in a shell: in quotes if the shell would read it otherwise.

    Examples:
        >>> print(in_shell("seed=0,1"), in_shell('directory="my runs"'), in_shell("a=it's"))
        seed=0,1 'directory="my runs"' "a=it's"
    """
    if re.fullmatch(r"[\w@%+=:,./~-]+", word):
        return word
    if "'" not in word:
        return f"'{word}'"
    escaped = re.sub(r'([\\"$`])', r"\\\1", word)
    return f'"{escaped}"'
