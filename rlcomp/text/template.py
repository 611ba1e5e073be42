"""Texts with fields in braces."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from rlcomp.errors import ConfigError


class Template:
    """Text with fields in braces, such as ``{prompt}``.

    Args:
        owner: name of the class with the argument ``template``, for messages.
        text: the text; other braces have no meaning.
        required: fields that the text must have.
        optional: fields that the text may have.

    Raises:
        ConfigError: the text lacks a required field.

    Examples:
        >>> template = Template("Judge", "{first} or {second}?", required=("first", "second"))
        >>> template.fill({"first": "{second}", "second": "b"})
        '{second} or b?'
    """

    def __init__(
        self, owner: str, text: str, *, required: Sequence[str], optional: Sequence[str] = ()
    ) -> None:
        for field in required:
            if f"{{{field}}}" not in text:
                raise ConfigError(f"{owner}: template {text!r} must hold {{{field}}}")
        self.text = text
        self._field = re.compile(rf"\{{({'|'.join([*required, *optional])})\}}")

    def fill(self, values: Mapping[str, str]) -> str:
        """Return the text with the value of each field.

        All fields are replaced in one pass: a field within a value is not replaced.
        """
        return self._field.sub(lambda field: values[field[1]], self.text)
