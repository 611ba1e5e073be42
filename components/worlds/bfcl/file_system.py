"""Simulated file system, after BFCL's function documents of GorillaFileSystem."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from itertools import zip_longest
from typing import Any

from components.worlds.bfcl.service import Refused, Result, Service

# A file is a text, a directory a mapping of its entries.
Directory = dict[str, Any]

_MOST_ENTRIES = 1_000
_DEEPEST = 32
_MOST_CHARACTERS = 1_000_000


class FileSystem(Service):
    """Service of directories and files below one root.

    Args:
        config: ``root``: a directory by its name, ``{"type": "directory", "contents": ...}``.
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        ((name, node),) = config.get("root", {"workspace": {}}).items()
        self.state = {"root": {name: _tree(node)}}
        self._path = [name]

    def _here(self) -> Directory:
        here = self.state["root"]
        for name in self._path:
            here = here[name]
        return here  # type: ignore[no-any-return]

    def _file(self, name: str) -> str:
        entry = self._here().get(name)
        if not isinstance(entry, str):
            raise Refused(f"{name}: {'no such file' if entry is None else 'is a directory'}")
        return entry

    def _new(self, name: str) -> str:
        if "/" in name or name in ("", ".", ".."):
            raise Refused(f"{name!r} is no name of an entry of this directory")
        if name in self._here():
            raise Refused(f"{name} is there already")
        return name

    def _put(self, folder: Directory, name: str, content: str | Directory) -> None:
        """Put an entry into a directory, if there is room for it."""
        before = folder.get(name)
        folder[name] = content
        if not self._has_room():
            if before is None:
                del folder[name]
            else:
                folder[name] = before
            raise Refused("the disk is full")

    def _has_room(self) -> bool:
        characters = 0
        for number, (path, content) in enumerate(_walk(self.state["root"], "")):
            characters += len(path) + len(content if isinstance(content, str) else "")
            if number >= _MOST_ENTRIES or path.count("/") > _DEEPEST:
                return False
        return characters <= _MOST_CHARACTERS

    def snapshot(self) -> object:
        """Return the state and the working directory."""
        return [super().snapshot(), [*self._path]]

    def pwd(self) -> Result:
        """Return the path of the working directory."""
        return {"current_working_directory": "/" + "/".join(self._path)}

    def cd(self, folder: str) -> Result:
        """Go down into a directory, or up by ``..``."""
        if folder == "..":
            if len(self._path) == 1:
                raise Refused("this is the root")
            self._path.pop()
        elif folder != ".":
            if not isinstance(self._here().get(folder), dict):
                raise Refused(f"{folder}: no such directory")
            self._path.append(folder)
        return self.pwd()

    def ls(self, a: bool = False) -> Result:
        """Return the names in the working directory, with hidden ones if requested."""
        names = [name for name in self._here() if a or not name.startswith(".")]
        return {"current_directory_content": names}

    def mkdir(self, dir_name: str) -> Result:
        """Make a directory."""
        self._put(self._here(), self._new(dir_name), {})
        return {}

    def touch(self, file_name: str) -> Result:
        """Make an empty file."""
        self._put(self._here(), self._new(file_name), "")
        return {}

    def echo(self, content: str, file_name: str | None = None) -> Result:
        """Overwrite a file, or return the content without a file."""
        if file_name is None:
            return {"terminal_output": content}
        if file_name in self._here():
            self._file(file_name)
        else:
            self._new(file_name)
        self._put(self._here(), file_name, content)
        return {"terminal_output": None}

    def cat(self, file_name: str) -> Result:
        """Return a file's content."""
        return {"file_content": self._file(file_name)}

    def sort(self, file_name: str) -> Result:
        """Return a file's lines in sorted order, without changing the file."""
        return {"sorted_content": "\n".join(sorted(self._file(file_name).splitlines()))}

    def tail(self, file_name: str, lines: int = 10) -> Result:
        """Return the last lines of a file."""
        whole = self._file(file_name).splitlines()
        return {"last_lines": "\n".join(whole[len(whole) - max(lines, 0) :] if lines > 0 else [])}

    def wc(self, file_name: str, mode: str = "l") -> Result:
        """Count the lines, words or characters of a file."""
        content = self._file(file_name)
        counts = {
            "l": ("lines", len(content.splitlines())),
            "w": ("words", len(content.split())),
            "c": ("characters", len(content)),
        }
        if mode not in counts:
            raise Refused(f"mode is {mode!r}: must be one of 'l', 'w', 'c'")
        kind, count = counts[mode]
        return {"count": count, "type": kind}

    def grep(self, file_name: str, pattern: str) -> Result:
        """Return the lines that contain a text."""
        lines = self._file(file_name).splitlines()
        return {"matching_lines": [line for line in lines if pattern in line]}

    def diff(self, file_name1: str, file_name2: str) -> Result:
        """Return the lines that differ from the other file's lines at the same place."""
        first, second = (self._file(name).splitlines() for name in (file_name1, file_name2))
        pairs = zip_longest(first, second, fillvalue="")
        return {"diff_lines": "\n".join(f"- {a}\n+ {b}" for a, b in pairs if a != b)}

    def find(self, path: str = ".", name: str | None = None) -> Result:
        """Return the paths below a directory whose last name contains a text."""
        start = self._here()
        for step in path.rstrip("/").split("/"):
            start = start if step == "." else start.get(step, "")
            if not isinstance(start, dict):
                raise Refused(f"{path}: no such directory")
        paths = [f"{path.rstrip('/')}{below}" for below, _ in _walk(start, "")]
        return {"matches": [each for each in paths if (name or "") in each.rpartition("/")[2]]}

    def du(self, human_readable: bool = False) -> Result:
        """Count the characters of all files below the working directory."""
        size = sum(len(each) for _, each in _walk(self._here(), "") if isinstance(each, str))
        return {"disk_usage": f"{size / 1024:.2f} KB" if human_readable else f"{size} bytes"}

    def _target(self, source: str, destination: str) -> tuple[Directory, str]:
        """Return the target of a copy: the directory of that name, or else a new name."""
        here = self._here()
        if source not in here:
            raise Refused(f"{source}: no such file or directory")
        inside = here.get(destination)
        if not isinstance(inside, dict):
            return here, self._new(destination)
        if destination == source:
            raise Refused(f"{source}: cannot go into itself")
        if source in inside:
            raise Refused(f"{source} is there already")
        return inside, source

    def cp(self, source: str, destination: str) -> Result:
        """Copy a file or directory within the working directory."""
        folder, name = self._target(source, destination)
        self._put(folder, name, copy.deepcopy(self._here()[source]))
        return {"result": f"'{source}' copied to '{destination}'"}

    def mv(self, source: str, destination: str) -> Result:
        """Move or rename a file or directory within the working directory."""
        folder, name = self._target(source, destination)
        moved = self._here().pop(source)
        try:
            self._put(folder, name, moved)
        except Refused:
            self._here()[source] = moved
            raise
        return {"result": f"'{source}' moved to '{destination}'"}

    def rm(self, file_name: str) -> Result:
        """Remove a file or directory."""
        if file_name not in self._here():
            raise Refused(f"{file_name}: no such file or directory")
        del self._here()[file_name]
        return {"result": f"'{file_name}' removed"}

    def rmdir(self, dir_name: str) -> Result:
        """Remove an empty directory."""
        if self._here().get(dir_name) != {}:
            raise Refused(f"{dir_name}: no empty directory")
        return self.rm(dir_name)


def _tree(node: Mapping[str, Any]) -> Any:  # noqa: ANN401
    if node.get("type") == "file":
        return str(node.get("content", ""))
    return {name: _tree(inner) for name, inner in node.get("contents", {}).items()}


def _walk(folder: Directory, path: str) -> Iterator[tuple[str, Any]]:
    for name, inner in folder.items():
        yield f"{path}/{name}", inner
        if isinstance(inner, dict):
            yield from _walk(inner, f"{path}/{name}")
