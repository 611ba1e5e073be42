"""Span masking: the check of a span, and the masked paragraph."""

from __future__ import annotations

import unicodedata

from rlcomp.errors import DataError


def normalised_span(span: str) -> str:
    r"""Normalise a span: Unicode NFC, white space stripped at both ends.

    Source:
        Unicode Standard Annex 15; the choice of NFC and of the stripping is an addition.

    Examples:
        >>> normalised_span(" New  York\n")
        'New  York'
    """
    return unicodedata.normalize("NFC", span).strip()


def span_problem(
    paragraph: str, span: str, *, longest_words: int = 8, largest_share: float = 0.2
) -> str | None:
    """Return the reason why a proposed span is invalid; None if it is valid.

    Args:
        paragraph: source of the span.
        span: the text to hide; it is normalised first (:func:`normalised_span`).
        longest_words: maximum number of words, separated by white space.
        largest_share: maximum share of the paragraph's characters.

    Returns:
        The first reason that holds: ``"empty"`` (no visible character), ``"absent"`` (no verbatim
        occurrence), ``"whole"`` (the paragraph has no other text), ``"long"``, ``"large"``.

    Source:
        PretrainZero, arXiv:2512.03442: a short span that occurs verbatim; the bounds are an
        addition.

    Examples:
        >>> paragraph = "Ada Lovelace wrote the first programme."
        >>> span_problem(paragraph, "Ada ") is None
        True
        >>> span_problem(paragraph, "Grace")
        'absent'
        >>> span_problem(paragraph, "Ada Lovelace wrote")
        'large'
    """
    text, target = unicodedata.normalize("NFC", paragraph), normalised_span(span)
    checks = {
        "empty": not target,
        "absent": target not in text,
        "whole": bool(target) and not text.replace(target, "").strip(),
        "long": len(target.split()) > longest_words,
        "large": len(target) > largest_share * len(text),
    }
    return next((name for name, holds in checks.items() if holds), None)


def mask_span(paragraph: str, span: str, mask: str) -> str:
    """Replace every occurrence of the normalised span in a paragraph (NFC) by the mask.

    A remaining occurrence would leak the answer.

    Raises:
        DataError: the span is empty or does not occur (:func:`span_problem` checks this).

    Source:
        PretrainZero, arXiv:2512.03442, hides a span; hiding every occurrence is our choice.

    Examples:
        >>> mask_span("A rose is a rose.", "rose", "[mask]")
        'A [mask] is a [mask].'
    """
    text, target = unicodedata.normalize("NFC", paragraph), normalised_span(span)
    if not target or target not in text:
        raise DataError(f"{span!r} cannot be masked in {paragraph!r}: it does not occur there")
    return text.replace(target, mask)
