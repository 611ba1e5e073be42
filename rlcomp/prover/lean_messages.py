"""Reader of Lean's messages on a file with several theorems (``lean --json``)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import NamedTuple


class File(NamedTuple):
    """A file of theorems, each followed by a command that prints its number.

    Attributes:
        text: the text of the file.
        spans: the first line of each theorem and the line of its command, counted from 1.
    """

    text: str
    spans: list[tuple[int, int]]


def file_of(theorems: Sequence[str]) -> File:
    r"""Return a file in which each theorem has a namespace of its own.

    Examples:
        >>> file_of(["theorem t : True := by\n  trivial"]).text.split("\n")
        ['namespace N0', 'theorem t : True := by', '  trivial', 'end N0', '#check "N0"', '']
    """
    lines, spans = list[str](), list[tuple[int, int]]()
    for number, theorem in enumerate(theorems):
        first = len(lines) + 1
        lines += [f"namespace N{number}", *theorem.split("\n"), f"end N{number}"]
        lines.append(f'#check "N{number}"')
        spans.append((first, len(lines)))
    return File("\n".join([*lines, ""]), spans)


def rejections(file: File, printed: str) -> list[str]:
    """Return why each theorem is rejected; '' if it is accepted.

    A theorem is accepted if there is no error and no ``sorry`` from its first line to its command,
    and if the command has answered, which shows that Lean has read that far.

    Args:
        file: the file that was checked.
        printed: Lean's output: a message a line, and other lines.

    Raises:
        ChildProcessError: Lean has not read the file to its end.
    """
    messages = list(_messages(printed))
    reasons = list[str]()
    for number, (first, last) in enumerate(file.spans):
        here = [each for each in messages if first <= each[0] <= last]
        if not any(line == last and f'"N{number}"' in data for line, _, data in here):
            raise ChildProcessError(f"Lean has not come to theorem {number}: {printed[-200:]!r}")
        reasons.append(next((data for _, bad, data in here if bad), ""))
    return reasons


def _messages(printed: str) -> Iterator[tuple[int, bool, str]]:
    """Yield each message's line, whether it rejects, and its text."""
    for line in printed.split("\n"):  # a message may hold other line ends
        if not line.startswith("{"):
            continue
        try:
            message = json.loads(line)
            data, place = str(message["data"]), int(message["pos"]["line"])
            bad = message["severity"] == "error" or message.get("kind") == "hasSorry"
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise ChildProcessError(f"Lean printed {line!r:.80}, which is no message") from error
        yield place, bad or "declaration uses" in data, data
