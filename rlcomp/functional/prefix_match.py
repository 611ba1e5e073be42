r"""Boxed answers, and matching of a prediction with the true continuation, in bytes."""

from __future__ import annotations

import re
from collections.abc import Collection


def last_boxed(text: bytes, *, after: bytes = b"</think>") -> bytes | None:
    r"""The content of the last complete ``\boxed{...}`` after the end of thinking, verbatim.

    Nothing is stripped: a space in front belongs to the answer. Braces inside must balance, where
    ``\{`` and ``\}`` count as text; an answer with a single brace is written with a backslash, and
    the backslash stays. The last box is the one that closes last: a box within a box is part of its
    content. A box that never closes is cut off or was only talked about; it says nothing, so it
    does not take back a complete one.

    Args:
        text: what was written, UTF-8 bytes.
        after: its first occurrence ends the thinking, and without it there is no answer; empty: the
            whole text is looked at.

    Returns:
        The content, which may be empty; None if there is no answer.

    Source:
        Dong et al. 2025 (RPT), arXiv:2506.08007.

    Examples:
        >>> last_boxed(b"\\boxed{a}?</think>It is \\boxed{ b{c}}.")
        b' b{c}'
        >>> last_boxed(b"\\boxed{a}") is None
        True
    """
    rest = behind(text, after)
    return None if rest is None else last_command(rest, b"boxed")


def behind(text: bytes, end: bytes) -> bytes | None:
    """The text after the first ``end``.

    Args:
        text: UTF-8 bytes.
        end: the bytes it is cut behind; empty: nothing is cut.

    Returns:
        The rest, which may be empty; None where ``end`` does not occur.

    Source:
        RLP's policies go on with the text there, arXiv:2510.01265.

    Examples:
        >>> behind(b"so</think> it goes</think>", b"</think>")
        b' it goes</think>'
    """
    return text[text.index(end) + len(end) :] if end in text else None


def last_command(text: bytes, name: bytes) -> bytes | None:
    r"""The content of the last complete ``\name{...}`` of a text, as :func:`last_boxed` reads it.

    Args:
        text: what was written, UTF-8 bytes.
        name: of the command, of letters, without backslash.

    Returns:
        The content, which may be empty; None if there is no such command.

    Source:
        The box of Dong et al. 2025 (RPT), arXiv:2506.08007, under other names.

    Examples:
        >>> last_command(b"\\mask{Ada} or \\mask{King{s}}, not \\mask{Lo", b"mask")
        b'King{s}'
    """
    found = commands(text, name)
    return found[-1] if found else None


def commands(text: bytes, name: bytes) -> list[bytes]:
    r"""The contents of the complete ``\name{...}`` of a text that stand in no other one, in order.

    Args:
        text: what was written, UTF-8 bytes.
        name: of the command, of letters, without backslash.

    Examples:
        >>> commands(b"\\boxed{6} or \\boxed{\\boxed{7}}", b"boxed")
        [b'6', b'\\boxed{7}']
    """
    # A backslash takes the next byte with it, so that \{ and \} are text and \\ is no escape.
    marks = re.compile(rb"\\" + name + rb"\{|\\.|[{}]", re.DOTALL)
    # Where the content of each open brace starts; None: it opened no command of this name.
    opened: list[int | None] = []
    found: list[tuple[int, int]] = []
    for mark in marks.finditer(text):
        if mark[0] == b"}":
            start = opened.pop() if opened else None
            if start is not None:
                while found and found[-1][0] > start:
                    found.pop()
                found.append((start, mark.start()))
        elif mark[0].endswith(b"{") and mark[0] != b"\\{":
            opened.append(mark.end() if len(mark[0]) > 1 else None)
    return [text[start:end] for start, end in found]


def matched_tokens(prediction: bytes, truth: bytes, ends: Collection[int]) -> int:
    """The number of leading true tokens a prediction equals exactly; 0 if it is no such prefix.

    Args:
        prediction: what was predicted.
        truth: the true continuation, as far as it is looked at: a longer prediction is wrong.
        ends: after how many bytes of the truth each of its tokens ends.

    Returns:
        0 if the prediction is empty, differs from the truth's beginning or ends within a token.

    Source:
        Dong et al. 2025 (RPT), arXiv:2506.08007, the prefix matching reward.

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
    """Whether a prediction starts with the complete first token of the true continuation.

    Args:
        prediction: what was predicted.
        truth: the true continuation.
        ends: after how many bytes of the truth each of its tokens ends.

    Source:
        Dong et al. 2025 (RPT), arXiv:2506.08007, the first-token reward it is compared with.

    Examples:
        >>> begins_with_first(b" parallel", b" parameter =", [5, 10, 12])
        True
    """
    first = min((end for end in ends if end > 0), default=0)
    return first > 0 and prediction.startswith(truth[:first])
