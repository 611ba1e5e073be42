r"""Boxed answers, and matching of a prediction with the true continuation, in bytes."""

from __future__ import annotations

import re
from collections.abc import Collection


def last_boxed(text: bytes, *, after: bytes = b"</think>") -> bytes | None:
    r"""Return the content of the last complete ``\boxed{...}`` after the thinking, verbatim.

    Nothing is stripped: a leading space belongs to the answer. Braces inside must balance, where
    ``\{`` and ``\}`` count as text; an answer with a single brace is written with a backslash, and
    the backslash stays. The last box is the one that closes last: a box within a box is part of its
    content. A box that never closes does not count, and leaves an earlier complete box valid.

    The first ``after`` ends the thinking; a text without it has no answer. Empty: search the whole
    text. None if there is no answer.

    Source: Dong et al. 2025 (RPT), arXiv:2506.08007.

    Examples:
        >>> last_boxed(b"\\boxed{a}?</think>It is \\boxed{ b{c}}.")
        b' b{c}'
        >>> last_boxed(b"\\boxed{a}") is None
        True
    """
    answer = text_after(text, after)
    return None if answer is None else last_command(answer, b"boxed")


def text_after(text: bytes, end: bytes) -> bytes | None:
    """Return the text after the first ``end``, all of it if ``end`` is empty; None if missing.

    Examples:
        >>> text_after(b"so</think> it goes</think>", b"</think>")
        b' it goes</think>'
    """
    return text[text.index(end) + len(end) :] if end in text else None


def last_command(text: bytes, name: bytes) -> bytes | None:
    r"""Return the content of the last complete ``\name{...}``, or None.

    Braces count as in :func:`last_boxed`.

    Examples:
        >>> last_command(b"\\mask{Ada} or \\mask{King{s}}, not \\mask{Lo", b"mask")
        b'King{s}'
    """
    contents = commands(text, name)
    return contents[-1] if contents else None


def commands(text: bytes, name: bytes) -> list[bytes]:
    r"""Return the contents of the outermost complete ``\name{...}`` of a text, in order.

    Examples:
        >>> commands(b"\\boxed{6} or \\boxed{\\boxed{7}}", b"boxed")
        [b'6', b'\\boxed{7}']
    """
    # A backslash takes the next byte with it, so that \{ and \} are text and \\ is no escape.
    marks = re.compile(rb"\\" + name + rb"\{|\\.|[{}]", re.DOTALL)
    # Start of the content of each open brace; None for a brace that is not this command's.
    opened: list[int | None] = []
    spans: list[tuple[int, int]] = []
    for mark in marks.finditer(text):
        if mark[0] == b"}":
            start = opened.pop() if opened else None
            if start is not None:
                while spans and spans[-1][0] > start:
                    spans.pop()
                spans.append((start, mark.start()))
        elif mark[0].endswith(b"{") and mark[0] != b"\\{":
            opened.append(mark.end() if len(mark[0]) > 1 else None)
    return [text[start:end] for start, end in spans]


def matched_tokens(prediction: bytes, truth: bytes, ends: Collection[int]) -> int:
    """Count the leading tokens of the true continuation that together equal the prediction.

    0 if the prediction is not the text of a number of leading tokens. ``truth`` holds only the part
    of the continuation that counts, so a prediction beyond its end is wrong. ``ends`` are the ends
    of the tokens of ``truth``, in bytes; tokens without bytes do not count.

    Source: Dong et al. 2025 (RPT), arXiv:2506.08007, the prefix matching reward.

    Examples:
        >>> matched_tokens(b" parameter", b" parameter =", [5, 10, 12])
        2
        >>> matched_tokens(b" param", b" parameter =", [5, 10, 12])
        0
    """
    if not truth.startswith(prediction) or len(prediction) not in ends:
        return 0
    return sum(0 < end <= len(prediction) for end in set(ends))


def begins_with_first(prediction: bytes, truth: bytes, ends: Collection[int]) -> bool:
    """Test if a prediction starts with the complete first token of the true continuation.

    Arguments are as in :func:`matched_tokens`.

    Source: Dong et al. 2025 (RPT), arXiv:2506.08007: the first-token reward, its baseline.

    Examples:
        >>> begins_with_first(b" parallel", b" parameter =", [5, 10, 12])
        True
    """
    first = min((end for end in ends if end > 0), default=0)
    return first > 0 and prediction.startswith(truth[:first])
