"""Prompt templates: ``str.format`` fields and their validation.

This module does not import torch, so that a bad template is reported before slow imports.
"""

from __future__ import annotations

import string
from collections.abc import Iterable

from rlcomp.errors import ConfigError, nearest


def field_names(name: str, template: str, known: str) -> set[str]:
    r"""Return the names of the fields of a template for :meth:`str.format`.

    A field is ``{field}``; ``{{`` and ``}}`` are braces.

    Args:
        name: name of the template, for messages.
        template: the text.
        known: the known fields in words, for messages.

    Raises:
        ConfigError: a brace is not closed, or a field is more than a name.

    Examples:
        >>> sorted(field_names("response", r"{thought} \\boxed{{{target}}}", ""))
        ['target', 'thought']
    """
    try:
        pieces = list(string.Formatter().parse(template))
    except ValueError as error:
        raise ConfigError(
            f"{name} {template!r}: {error}; write '{{{{' and '}}}}' for braces"
        ) from None
    names = {field for _, field, _, _ in pieces if field is not None}
    plain = all(not spec and not conversion for _, _, spec, conversion in pieces)
    for field in names:
        if not plain or not field or "." in field or "[" in field or field.isdigit():
            raise ConfigError(
                f"{name} {template!r}: only {known} are filled in, not {{{field}}}; write '{{{{' "
                "and '}}' for braces"
            )
    return names


def check_wording(
    name: str, template: str, *, fields: Iterable[str], needed: Iterable[str] = ()
) -> None:
    """Refuse a template with a field other than ``fields``, or without one of ``needed``.

    Raises:
        ConfigError: the template cannot be used.
    """
    fields = list(fields)
    names = field_names(name, template, " and ".join(f"{{{field}}}" for field in fields))
    for field in sorted(names - set(fields)):
        raise ConfigError(
            f"{name} {template!r} names {{{field}}}{nearest(field, fields)}; write '{{{{' and "
            "'}}' for braces"
        )
    for field in sorted(set(needed) - names):
        raise ConfigError(f"{name} {template!r} lacks {{{field}}}: put it where that belongs")
