"""Changes of a repository: diffs beside a folder, or the commits of a git repository."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

from rlcomp.data.software import Change
from rlcomp.errors import DataError
from rlcomp.sandbox.tree import LONGEST_FILE, LONGEST_TREE, MOST_FILES

_ISSUES = (".md", ".txt")  # beside the diff
_SECONDS = 60.0  # of a call of git
_FILE_MODES = ("100644", "100755")  # of git; others are links and other repositories


def changes_of_diffs(folder: Path, diffs: Sequence[Path]) -> Iterator[Change]:
    """A change for each diff of a folder; the issue of ``one.diff`` is ``one.md`` or ``one.txt``.

    Raises:
        DataError: a file is missing or no text, or the folder is too large.
    """
    before = read_folder(folder)
    for diff in diffs:
        beside = [diff.with_suffix(ending) for ending in _ISSUES]
        issue = next(filter(Path.is_file, beside), None)
        if issue is None:
            told = " nor ".join(map(str, beside))
            raise DataError(f"{diff}: its issue is missing: there is neither {told}")
        yield Change(name=str(diff), issue=_text(issue), before=before, diff=_text(diff))


def read_folder(folder: Path) -> dict[str, str]:
    """The texts of a folder by path: no links, nothing hidden or compiled, no other files.

    Raises:
        DataError: it is no folder, or has more files than a repository may have.
    """
    if not folder.is_dir():
        raise DataError(f"there is no folder {str(folder)!r}")
    found: dict[str, str] = {}
    for where, folders, names in os.walk(folder):
        folders[:] = sorted(each for each in folders if not each.startswith((".", "__pycache__")))
        for file in [Path(where, each) for each in sorted(names) if not each.startswith(".")]:
            if file.is_symlink() or not file.is_file() or file.stat().st_size > 4 * LONGEST_FILE:
                continue
            text = _as_text(file.read_bytes())
            if text is not None:
                found[file.relative_to(folder).as_posix()] = text
            if len(found) > MOST_FILES:
                raise DataError(f"{folder}: more than {MOST_FILES} files: name a smaller folder")
    return found


def changes_of_commits(folder: Path, commits: str) -> Iterator[Change]:
    """A change for each commit of a range ``A..B``, merges left out; the message is the issue.

    Raises:
        DataError: git does not find them.
    """
    git = _Git(folder)
    for commit in git("rev-list", "--reverse", "--no-merges", commits, "--").decode().split():
        if not git("rev-list", "--max-count=1", "--skip=1", commit, "--"):
            continue  # the first of all: there was nothing before it
        issue = git("log", "-1", "--format=%B", commit, "--").decode(errors="replace")
        shown = ("-p", "--no-ext-diff", "--no-textconv", "--no-renames", f"{commit}^", commit)
        diff = git("diff-tree", *shown).decode(errors="replace")
        before = git.tree(f"{commit}^")
        yield Change(name=commit, issue=issue.strip(), before=before, diff=diff)


class _Git:
    """Reads a git repository by commands that run nothing of it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, *words: str) -> bytes:
        command = ["git", "-C", str(self.folder), "-c", "core.quotePath=false", *words]
        try:
            done = subprocess.run(command, capture_output=True, timeout=_SECONDS, check=False)
        except FileNotFoundError as error:
            raise DataError("git is not installed: name diffs instead") from error
        except subprocess.TimeoutExpired as error:
            raise DataError(f"{self.folder}: git took longer than {_SECONDS:g} s") from error
        if done.returncode:
            told = " ".join(done.stderr.decode(errors="replace").split())
            raise DataError(f"{self.folder}: git {words[0]}: {told:.300}")
        return done.stdout

    def tree(self, commit: str) -> dict[str, str]:
        """The texts of a commit by path; nothing hidden."""
        found: dict[str, str] = {}
        size = 0
        for entry in self("ls-tree", "-r", "-z", "-l", "--full-tree", commit).split(b"\0")[:-1]:
            about, _, name = entry.partition(b"\t")
            mode, _, blob, length = about.decode().split()
            path = name.decode(errors="replace")
            if mode not in _FILE_MODES or any(part.startswith(".") for part in path.split("/")):
                continue
            if int(length) > 4 * LONGEST_FILE:
                continue
            text = _as_text(self("cat-file", "blob", blob))
            if text is not None:
                found[path] = text
                size += len(text)
            if len(found) > MOST_FILES or size > LONGEST_TREE:
                break  # refused as it is
        return found


def _as_text(data: bytes) -> str | None:
    """A file's text; None where it is none."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else text


def _text(file: Path) -> str:
    try:
        return file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{file}: cannot be read: {error}") from error
