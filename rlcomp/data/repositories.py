"""Changes of a repository: diffs beside a folder, or the commits of a git repository."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

from rlcomp.data.software import Change
from rlcomp.errors import DataError
from rlcomp.sandbox.tree import LONGEST_FILE, LONGEST_TREE, MOST_FILES

_LARGEST_FILE = 4 * LONGEST_FILE  # in bytes: a character has at most 4 in UTF-8
_ISSUES = (".md", ".txt")  # endings of the issue's file, beside the diff
_SECONDS = 60.0  # limit of a call of git
_FILE_MODES = ("100644", "100755")  # modes of plain files in git; others are links, submodules


def changes_of_diffs(folder: Path, diffs: Sequence[Path]) -> Iterator[Change]:
    """Yield a change for each diff; the issue of ``one.diff`` is ``one.md`` or ``one.txt``.

    Raises:
        DataError: a file is missing or no text, or the folder is too large.
    """
    before = read_folder(folder)
    for diff in diffs:
        issues = [diff.with_suffix(ending) for ending in _ISSUES]
        issue = next(filter(Path.is_file, issues), None)
        if issue is None:
            expected = " nor ".join(map(str, issues))
            raise DataError(f"{diff}: its issue is missing: there is neither {expected}")
        yield Change(name=str(diff), issue=_text(issue), before=before, diff=_text(diff))


def read_folder(folder: Path) -> dict[str, str]:
    """Return the texts of a folder by path, without links, hidden, compiled or binary files.

    Files larger than 800,000 bytes are left out too.

    Raises:
        DataError: there is no such folder, or it has more files than a repository may have.
    """
    if not folder.is_dir():
        raise DataError(f"there is no folder {str(folder)!r}")
    texts: dict[str, str] = {}
    for parent, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith((".", "__pycache__")))
        for file in [Path(parent, name) for name in sorted(names) if not name.startswith(".")]:
            if file.is_symlink() or not file.is_file() or file.stat().st_size > _LARGEST_FILE:
                continue
            text = _as_text(file.read_bytes())
            if text is not None:
                texts[file.relative_to(folder).as_posix()] = text
            if len(texts) > MOST_FILES:
                raise DataError(f"{folder}: more than {MOST_FILES} files: name a smaller folder")
    return texts


def changes_of_commits(folder: Path, commits: str) -> Iterator[Change]:
    """Yield a change for each commit of a range ``A..B``; the commit's message is the issue.

    Merges, and a commit without a parent, are left out.

    Raises:
        DataError: git does not find the commits, takes too long or is not installed.
    """
    git = _Git(folder)
    for commit in git("rev-list", "--reverse", "--no-merges", commits, "--").decode().split():
        if not git("rev-list", "--max-count=1", "--skip=1", commit, "--"):
            continue  # the root commit has no parent
        issue = git("log", "-1", "--format=%B", commit, "--").decode(errors="replace")
        options = ("-p", "--no-ext-diff", "--no-textconv", "--no-renames", f"{commit}^", commit)
        diff = git("diff-tree", *options).decode(errors="replace")
        before = git.tree(f"{commit}^")
        yield Change(name=commit, issue=issue.strip(), before=before, diff=diff)


class _Git:
    """Reader of a git repository; its commands run no code of the repository."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, *words: str) -> bytes:
        """Return the output of a git command."""
        command = ["git", "-C", str(self.folder), "-c", "core.quotePath=false", *words]
        try:
            process = subprocess.run(command, capture_output=True, timeout=_SECONDS, check=False)
        except FileNotFoundError as error:
            raise DataError("git is not installed: name diffs instead") from error
        except subprocess.TimeoutExpired as error:
            raise DataError(f"{self.folder}: git took longer than {_SECONDS:g} s") from error
        if process.returncode:
            message = " ".join(process.stderr.decode(errors="replace").split())
            raise DataError(f"{self.folder}: git {words[0]}: {message:.300}")
        return process.stdout

    def tree(self, commit: str) -> dict[str, str]:
        """Return the texts of a commit by path, without links, hidden, binary or very large files.

        Reading stops where the files become too many or too large for a repository.
        """
        texts: dict[str, str] = {}
        size = 0
        for entry in self("ls-tree", "-r", "-z", "-l", "--full-tree", commit).split(b"\0")[:-1]:
            fields, _, name = entry.partition(b"\t")
            mode, _, blob, length = fields.decode().split()
            path = name.decode(errors="replace")
            if mode not in _FILE_MODES or any(part.startswith(".") for part in path.split("/")):
                continue
            if int(length) > _LARGEST_FILE:
                continue
            text = _as_text(self("cat-file", "blob", blob))
            if text is not None:
                texts[path] = text
                size += len(text)
            if len(texts) > MOST_FILES or size > LONGEST_TREE:
                break  # the caller refuses a tree of this size
        return texts


def _as_text(data: bytes) -> str | None:
    """Return the text of a file's bytes; None if they are no text."""
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
