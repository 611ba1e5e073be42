"""Unified diffs, read by unidiff and applied to a repository's texts."""

from __future__ import annotations

import io
from typing import Any

from rlcomp.errors import DataError, require
from rlcomp.sandbox.tree import Tree, is_test, path_fault


def apply_diff(files: Tree, diff: str) -> dict[str, str]:
    """Return the repository after a diff; every hunk must fit at the line it names.

    Raises:
        DataError: it is no unified diff, changes no file or a binary one, names a path outside the
            repository, or does not fit; names file and line.
        MissingExtra: unidiff is not installed.
    """
    changed = dict(files)
    for patch in _parse_diff(diff):
        source, target = _paths(patch)
        if patch.is_binary_file:
            raise DataError(f"the diff changes {patch.path}, which is no text")
        if source and source not in changed:
            raise DataError(f"the diff changes {source}, which is not there")
        if target and target != source and target in changed:
            raise DataError(f"the diff makes {target}, which is there already")
        text = changed.pop(source) if source else ""
        patched = _apply_hunks(source or target, text, patch)
        if target:
            changed[target] = patched
    return changed


def without_tests(diff: str) -> str:
    """Return a diff without its changes of tests, which is the solution.

    Raises:
        DataError: it is no unified diff.
        MissingExtra: unidiff is not installed.
    """
    return "".join(str(patch) for patch in _parse_diff(diff) if not is_test(patch.path))


def _parse_diff(diff: str) -> list[Any]:
    unidiff = require("unidiff", "software")
    try:
        patches = [*unidiff.PatchSet(diff)]
    except unidiff.UnidiffParseError as error:
        raise DataError(f"not a unified diff: {str(error).strip():.200}") from error
    if not patches:
        raise DataError("not a unified diff: it changes no file")
    return patches


def _paths(patch: Any) -> tuple[str, str]:  # noqa: ANN401
    """Return the old and the new path of a file; '' if it is created or deleted."""
    source, target = (
        "" if path == "/dev/null" else path.removeprefix(prefix)
        for path, prefix in ((patch.source_file, "a/"), (patch.target_file, "b/"))
    )
    for path in filter(None, (source, target)):
        if fault := path_fault(path):
            raise DataError(f"the diff: {fault}")
    return source, target


def _apply_hunks(path: str, text: str, patch: Any) -> str:  # noqa: ANN401
    lines = [*io.StringIO(text, newline="\n")]
    result: list[str] = []
    num_copied = 0
    for hunk in patch:
        old, new = _hunk_sides(hunk)
        start = hunk.source_start - 1 if old else hunk.source_start
        if start < num_copied or lines[start : start + len(old)] != old:
            raise DataError(f"the diff does not fit {path} at line {hunk.source_start}")
        result += lines[num_copied:start] + new
        num_copied = start + len(old)
    return "".join(result + lines[num_copied:])


def _hunk_sides(hunk: Any) -> tuple[list[str], list[str]]:  # noqa: ANN401
    """Return the old and the new lines of a hunk, both with the context."""
    old: list[str] = []
    new: list[str] = []
    target_sides: list[list[str]] = []
    for line in hunk:
        if line.line_type == "\\":  # the previous line has no line break
            for side in target_sides:
                side[-1] = side[-1].removesuffix("\n")
            continue
        target_sides = [
            side for side, off in ((old, line.is_added), (new, line.is_removed)) if not off
        ]
        for side in target_sides:
            side.append(line.value)
    return old, new
