"""Edits of files: similarity of patches, and the actions of an agent in a repository."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import Match, SequenceMatcher
from itertools import accumulate
from typing import Literal

from rlcomp.sandbox.tree import path_fault, tree_fault

# Most pairs of equal characters, one from each text.
_MOST_PAIRS = 2_000_000
# Most visits of pairs. Unlike texts visit each pair about eight times; adversarial texts visit it
# once for each matching block.
_MOST_VISITS = 10 * _MOST_PAIRS


def patch_similarity(patch: str | None, truth: str) -> float:
    """Compute the similarity of a patch and the true one.

    ``R = 2 M / T`` in [0, 1]. ``M`` is the number of characters in matching blocks (Ratcliff and
    Obershelp), ``T`` the number of characters of both texts together. -1 if there is no patch, so
    that a wrong form costs more than a wrong patch.

    White space at the ends of lines does not count. The time grows with the square of the length:
    texts with more than 2 million pairs of equal characters are compared line by line (``M`` and
    ``T`` then count lines). After 20 million visits of pairs the rest of the texts counts as
    unlike.

    Args:
        patch: the unified diff of a response, or its new text; None: it gave none.
        truth: the diff or text of the true change.

    Source:
        Wei et al. 2025 (SWE-RL), arXiv:2502.18449, eq. 1.

    Examples:
        >>> patch_similarity("ab", "abcd"), patch_similarity(None, "abcd")
        (0.6666666666666666, -1.0)
    """
    if patch is None or not patch.strip():
        return -1.0
    lines, true_lines = _lines(patch), _lines(truth)
    text, true_text = "\n".join(lines), "\n".join(true_lines)
    counts = Counter(true_text)
    if sum(counts[character] for character in text) > _MOST_PAIRS:
        return _BoundedMatcher(lines, true_lines).ratio()
    return _BoundedMatcher(text, true_text).ratio()


class _BoundedMatcher(SequenceMatcher[str]):
    """Matching blocks in bounded time; without a bound it grows with the cube of the length."""

    def __init__(self, first: Sequence[str], second: Sequence[str]) -> None:
        super().__init__(None, first, second, autojunk=False)
        counts = Counter(second)
        # Entry i: how many pairs have their first member before index i.
        self.visits_before = [0, *accumulate(counts[item] for item in first)]
        self.visits = 0

    def find_longest_match(
        self, alo: int = 0, ahi: int | None = None, blo: int = 0, bhi: int | None = None
    ) -> Match:
        """Return the longest block in a part of both texts; an empty one beyond the bound."""
        end = -1 if ahi is None else ahi
        self.visits += self.visits_before[end] - self.visits_before[alo]
        if self.visits > _MOST_VISITS:
            return Match(alo, blo, 0)
        return super().find_longest_match(alo, ahi, blo, bhi)


def _lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.strip("\n").splitlines()]


# Texts that end an action, and with it the turn.
STOPS = ("</view>", "</edit>", "</create>", "<run/>", "<submit/>")

# Form of each action with an argument, by the text that ends it.
_SHAPES = {
    "</view>": re.compile(
        r"<view>\s*(?P<path>[^<>]*?)(?::(?P<first>\d{1,6})-(?P<last>\d{1,6}))?\s*</view>"
    ),
    "</edit>": re.compile(
        r'<edit path="(?P<path>[^"<>]*)">\s*<old>\n?(?P<old>.*?)\n?</old>\s*'
        r"<new>\n?(?P<new>.*?)\n?</new>\s*</edit>",
        re.DOTALL,
    ),
    "</create>": re.compile(r'<create path="(?P<path>[^"<>]*)">\n?(?P<new>.*)</create>', re.DOTALL),
}


class ActionError(Exception):
    """Error of an action that cannot be done; its message is shown to the policy."""


@dataclass(frozen=True, kw_only=True)
class RepositoryAction:
    """Action that a turn ends with.

    Attributes:
        kind: the kind of action.
        path: path of the file.
        old: for an edit, the text to replace.
        new: the new text of an edit or of a new file.
        lines: for a view, the first and the last line, counted from 1; None: all.
    """

    kind: Literal["view", "edit", "create", "run", "submit"]
    path: str = ""
    old: str = ""
    new: str = ""
    lines: tuple[int, int] | None = None


def action_of(text: str) -> RepositoryAction:
    """Return the action at the end of a turn.

    Raises:
        ActionError: the turn does not end with an action, or the action is malformed.

    Examples:
        >>> action_of("I look. <view>a.py</view>").path
        'a.py'
        >>> action_of('<edit path="a.py"><old>x</old><new></new></edit>').old
        'x'
    """
    ending = next((stop for stop in STOPS if text.rstrip().endswith(stop)), None)
    if ending is None:
        raise ActionError(f"the turn must end with an action: one of {', '.join(STOPS)} ends it")
    if ending == "<run/>":
        return RepositoryAction(kind="run")
    if ending == "<submit/>":
        return RepositoryAction(kind="submit")
    kind = ending[2:-1]
    match = _SHAPES[ending].fullmatch(text.rstrip(), max(0, text.rfind(f"<{kind}")))
    if match is None:
        raise ActionError(f"this is not the form of <{kind}>")
    groups = match.groupdict()
    lines = (int(groups.pop("first")), int(groups.pop("last"))) if groups.get("first") else None
    return RepositoryAction(
        kind=kind,  # type: ignore[arg-type]
        path=groups["path"],
        old=groups.get("old") or "",
        new=groups.get("new") or "",
        lines=lines,
    )


def view_file(files: Mapping[str, str], action: RepositoryAction) -> str:
    """Return the text of a file, or some of its lines, for the policy.

    Raises:
        ActionError: there is no such file, or it has no such lines.
    """
    lines = _read_file(files, action.path).splitlines(keepends=True)
    first, last = action.lines or (1, len(lines))
    if action.lines and not 1 <= first <= last:
        raise ActionError(
            f"lines {first}-{last}: the first must be at least 1, the last not before it"
        )
    if first > max(len(lines), 1):
        raise ActionError(f"{action.path} has {len(lines)} lines")
    return f"{action.path}, {len(lines)} lines:\n{''.join(lines[first - 1 : last])}"


def edit_file(files: Mapping[str, str], action: RepositoryAction) -> dict[str, str]:
    """Return the files after an edit.

    Raises:
        ActionError: there is no such file, the old text does not occur exactly once, or the new one
            exceeds a limit.
    """
    text = _read_file(files, action.path)
    count = text.count(action.old) if action.old else 0
    if count != 1:
        raise ActionError(f"<old> must stand in {action.path} once, it does {count} times")
    return _replace_file(files, action.path, text.replace(action.old, action.new))


def create_file(files: Mapping[str, str], action: RepositoryAction) -> dict[str, str]:
    """Return the files with a new one.

    Raises:
        ActionError: the file exists, its path is not allowed in a repository, or a limit is
            exceeded.
    """
    if fault := path_fault(action.path):
        raise ActionError(fault)
    if action.path in files:
        raise ActionError(f"{action.path} is there: edit it")
    return _replace_file(files, action.path, action.new)


def _read_file(files: Mapping[str, str], path: str) -> str:
    if path not in files:
        raise ActionError(f"there is no file {path!r:.200}")
    return files[path]


def _replace_file(files: Mapping[str, str], path: str, text: str) -> dict[str, str]:
    changed = {**files, path: text}
    if fault := tree_fault(changed):
        raise ActionError(fault)
    return changed
