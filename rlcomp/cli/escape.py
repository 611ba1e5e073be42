"""Escapes for untrusted text in a terminal."""

from __future__ import annotations

import unicodedata

# Control, format (may change the direction of text), surrogate, private, unassigned.
_HIDDEN = ("Cc", "Cf", "Cs", "Co", "Cn")


def printable(text: str) -> str:
    r"""Replace control and invisible characters by escapes, except line breaks and tabs.

    Examples:
        >>> print(printable("4 \x1b[2J is red"))
        4 \x1b[2J is red
    """
    return "".join(
        char.encode("unicode_escape").decode("ascii")
        if unicodedata.category(char) in _HIDDEN and char not in "\n\t"
        else char
        for char in text
    )
