"""Simulated file system, after BFCL's function documents of GorillaFileSystem."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from itertools import zip_longest
from typing import Any

from components.worlds.bfcl.service import Result, Service, ServiceError

# Entries of a directory by name: a text for a file, a mapping for a directory.
Directory = dict[str, Any]

# Capacity of the disk: entries, depth of the directories, characters of all paths and files.
_MAX_ENTRIES = 1_000
_MAX_DEPTH = 32
_MAX_CHARACTERS = 1_000_000


class FileSystemService(Service):
    """Service of directories and files below one root.

    Args:
        config: ``{"root": {name: {"type": "directory", "contents": ...}}}``; without ``root``
            an empty directory ``workspace``.
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        ((name, node),) = config.get("root", {"workspace": {}}).items()
        self.state = {"root": {name: _parse_node(node)}}
        self._path = [name]

    def _working_directory(self) -> Directory:
        directory = self.state["root"]
        for name in self._path:
            directory = directory[name]
        return directory  # type: ignore[no-any-return]

    def _read_file(self, name: str) -> str:
        entry = self._working_directory().get(name)
        if not isinstance(entry, str):
            raise ServiceError(f"{name}: {'no such file' if entry is None else 'is a directory'}")
        return entry

    def _check_new_name(self, name: str) -> str:
        """Check the name of a new entry of the working directory; return the name."""
        if "/" in name or name in ("", ".", ".."):
            raise ServiceError(f"{name!r} is no name of an entry of this directory")
        if name in self._working_directory():
            raise ServiceError(f"{name} is there already")
        return name

    def _write(self, folder: Directory, name: str, content: str | Directory) -> None:
        """Write an entry into a directory, unless the disk would be too full."""
        previous = folder.get(name)
        folder[name] = content
        if not self._fits_disk():
            if previous is None:
                del folder[name]
            else:
                folder[name] = previous
            raise ServiceError("the disk is full")

    def _fits_disk(self) -> bool:
        characters = 0
        for number, (path, content) in enumerate(_walk(self.state["root"], "")):
            characters += len(path) + len(content if isinstance(content, str) else "")
            if number >= _MAX_ENTRIES or path.count("/") > _MAX_DEPTH:
                return False
        return characters <= _MAX_CHARACTERS

    def snapshot(self) -> object:
        """Return a copy of the state and of the path of the working directory."""
        return [super().snapshot(), [*self._path]]

    def pwd(self) -> Result:
        """Return the path of the working directory."""
        return {"current_working_directory": "/" + "/".join(self._path)}

    def cd(self, folder: str) -> Result:
        """Change to a subdirectory, or by ``..`` to the parent directory."""
        if folder == "..":
            if len(self._path) == 1:
                raise ServiceError("this is the root")
            self._path.pop()
        elif folder != ".":
            if not isinstance(self._working_directory().get(folder), dict):
                raise ServiceError(f"{folder}: no such directory")
            self._path.append(folder)
        return self.pwd()

    def ls(self, a: bool = False) -> Result:
        """Return the names in the working directory, with hidden ones if requested."""
        names = [name for name in self._working_directory() if a or not name.startswith(".")]
        return {"current_directory_content": names}

    def mkdir(self, dir_name: str) -> Result:
        """Make a directory."""
        self._write(self._working_directory(), self._check_new_name(dir_name), {})
        return {}

    def touch(self, file_name: str) -> Result:
        """Make an empty file."""
        self._write(self._working_directory(), self._check_new_name(file_name), "")
        return {}

    def echo(self, content: str, file_name: str | None = None) -> Result:
        """Write the content to a file; return it if there is no file name."""
        if file_name is None:
            return {"terminal_output": content}
        if file_name in self._working_directory():
            self._read_file(file_name)
        else:
            self._check_new_name(file_name)
        self._write(self._working_directory(), file_name, content)
        return {"terminal_output": None}

    def cat(self, file_name: str) -> Result:
        """Return a file's content."""
        return {"file_content": self._read_file(file_name)}

    def sort(self, file_name: str) -> Result:
        """Return a file's lines in sorted order; the file does not change."""
        return {"sorted_content": "\n".join(sorted(self._read_file(file_name).splitlines()))}

    def tail(self, file_name: str, lines: int = 10) -> Result:
        """Return the last lines of a file."""
        all_lines = self._read_file(file_name).splitlines()
        return {"last_lines": "\n".join(all_lines[-lines:] if lines > 0 else [])}

    def wc(self, file_name: str, mode: str = "l") -> Result:
        """Count the lines, words or characters of a file."""
        content = self._read_file(file_name)
        counts = {
            "l": ("lines", len(content.splitlines())),
            "w": ("words", len(content.split())),
            "c": ("characters", len(content)),
        }
        if mode not in counts:
            raise ServiceError(f"mode is {mode!r}: must be one of 'l', 'w', 'c'")
        kind, count = counts[mode]
        return {"count": count, "type": kind}

    def grep(self, file_name: str, pattern: str) -> Result:
        """Return the lines of a file that contain a text."""
        lines = self._read_file(file_name).splitlines()
        return {"matching_lines": [line for line in lines if pattern in line]}

    def diff(self, file_name1: str, file_name2: str) -> Result:
        """Return the pairs of lines with the same number that differ between two files."""
        first, second = (self._read_file(name).splitlines() for name in (file_name1, file_name2))
        pairs = zip_longest(first, second, fillvalue="")
        return {"diff_lines": "\n".join(f"- {a}\n+ {b}" for a, b in pairs if a != b)}

    def find(self, path: str = ".", name: str | None = None) -> Result:
        """Return the paths below a directory with a text in their last component."""
        start = self._working_directory()
        for part in path.rstrip("/").split("/"):
            start = start if part == "." else start.get(part, "")
            if not isinstance(start, dict):
                raise ServiceError(f"{path}: no such directory")
        paths = [f"{path.rstrip('/')}{suffix}" for suffix, _ in _walk(start, "")]
        return {"matches": [entry for entry in paths if (name or "") in entry.rpartition("/")[2]]}

    def du(self, human_readable: bool = False) -> Result:
        """Count the characters of all files below the working directory."""
        entries = _walk(self._working_directory(), "")
        size = sum(len(content) for _, content in entries if isinstance(content, str))
        return {"disk_usage": f"{size / 1024:.2f} KB" if human_readable else f"{size} bytes"}

    def _find_target(self, source: str, destination: str) -> tuple[Directory, str]:
        """Return the directory and the name that a copy or move writes.

        The source keeps its name if the destination is a directory; else the destination is its new
        name.
        """
        directory = self._working_directory()
        if source not in directory:
            raise ServiceError(f"{source}: no such file or directory")
        subdirectory = directory.get(destination)
        if not isinstance(subdirectory, dict):
            return directory, self._check_new_name(destination)
        if destination == source:
            raise ServiceError(f"{source}: cannot go into itself")
        if source in subdirectory:
            raise ServiceError(f"{source} is there already")
        return subdirectory, source

    def cp(self, source: str, destination: str) -> Result:
        """Copy a file or directory within the working directory."""
        folder, name = self._find_target(source, destination)
        self._write(folder, name, copy.deepcopy(self._working_directory()[source]))
        return {"result": f"'{source}' copied to '{destination}'"}

    def mv(self, source: str, destination: str) -> Result:
        """Move or rename a file or directory within the working directory."""
        folder, name = self._find_target(source, destination)
        entry = self._working_directory().pop(source)
        try:
            self._write(folder, name, entry)
        except ServiceError:
            self._working_directory()[source] = entry
            raise
        return {"result": f"'{source}' moved to '{destination}'"}

    def rm(self, file_name: str) -> Result:
        """Remove a file or directory."""
        if file_name not in self._working_directory():
            raise ServiceError(f"{file_name}: no such file or directory")
        del self._working_directory()[file_name]
        return {"result": f"'{file_name}' removed"}

    def rmdir(self, dir_name: str) -> Result:
        """Remove an empty directory."""
        if self._working_directory().get(dir_name) != {}:
            raise ServiceError(f"{dir_name}: no empty directory")
        return self.rm(dir_name)


def _parse_node(node: Mapping[str, Any]) -> Any:  # noqa: ANN401
    """Return a file's text or a directory's entries."""
    if node.get("type") == "file":
        return str(node.get("content", ""))
    return {name: _parse_node(inner) for name, inner in node.get("contents", {}).items()}


def _walk(folder: Directory, path: str) -> Iterator[tuple[str, Any]]:
    """Yield the path and the content of every entry below a directory."""
    for name, content in folder.items():
        yield f"{path}/{name}", content
        if isinstance(content, dict):
            yield from _walk(content, f"{path}/{name}")
