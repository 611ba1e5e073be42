"""Edits of a repository that a policy writes: one action at the end of a turn."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from rlcomp.sandbox.tree import path_fault, tree_fault

STOPS = ("</view>", "</edit>", "</create>", "<run/>", "<submit/>")

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


class Mistake(Exception):
    """Error of an action that cannot be done; the message is for the policy."""


@dataclass(frozen=True, kw_only=True)
class Action:
    """The action of a turn.

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


def action_of(text: str) -> Action:
    """Return the action at the end of a turn.

    Raises:
        Mistake: the turn does not end with an action, or the action is malformed.

    Examples:
        >>> action_of("I look. <view>a.py</view>").path
        'a.py'
        >>> action_of('<edit path="a.py"><old>x</old><new></new></edit>').old
        'x'
    """
    ending = next((stop for stop in STOPS if text.rstrip().endswith(stop)), None)
    if ending is None:
        raise Mistake(f"the turn must end with an action: one of {', '.join(STOPS)} ends it")
    if ending == "<run/>":
        return Action(kind="run")
    if ending == "<submit/>":
        return Action(kind="submit")
    kind = ending[2:-1]
    match = _SHAPES[ending].fullmatch(text.rstrip(), max(0, text.rfind(f"<{kind}")))
    if match is None:
        raise Mistake(f"this is not the form of <{kind}>")
    groups = match.groupdict()
    lines = (int(groups.pop("first")), int(groups.pop("last"))) if groups.get("first") else None
    return Action(
        kind=kind,  # type: ignore[arg-type]
        path=groups["path"],
        old=groups.get("old") or "",
        new=groups.get("new") or "",
        lines=lines,
    )


def viewed(files: Mapping[str, str], action: Action) -> str:
    """Return the text of a file, or some of its lines, for the policy.

    Raises:
        Mistake: there is no such file, or it has no such lines.
    """
    lines = _file(files, action.path).splitlines(keepends=True)
    first, last = action.lines or (1, len(lines))
    if action.lines and not 1 <= first <= last:
        raise Mistake(f"lines {first}-{last}: the first must be at least 1, the last not before it")
    if first > max(len(lines), 1):
        raise Mistake(f"{action.path} has {len(lines)} lines")
    return f"{action.path}, {len(lines)} lines:\n{''.join(lines[first - 1 : last])}"


def edited(files: Mapping[str, str], action: Action) -> dict[str, str]:
    """Return the files after an edit.

    Raises:
        Mistake: the old text does not occur exactly once, or the new one exceeds a limit.
    """
    text = _file(files, action.path)
    count = text.count(action.old) if action.old else 0
    if count != 1:
        raise Mistake(f"<old> must stand in {action.path} once, it does {count} times")
    return _changed(files, action.path, text.replace(action.old, action.new))


def created(files: Mapping[str, str], action: Action) -> dict[str, str]:
    """Return the files with a new one.

    Raises:
        Mistake: the file exists, its path is not allowed in a repository, or a limit is exceeded.
    """
    if fault := path_fault(action.path):
        raise Mistake(fault)
    if action.path in files:
        raise Mistake(f"{action.path} is there: edit it")
    return _changed(files, action.path, action.new)


def _file(files: Mapping[str, str], path: str) -> str:
    if path not in files:
        raise Mistake(f"there is no file {path!r:.200}")
    return files[path]


def _changed(files: Mapping[str, str], path: str, text: str) -> dict[str, str]:
    changed = {**files, path: text}
    if fault := tree_fault(changed):
        raise Mistake(fault)
    return changed
