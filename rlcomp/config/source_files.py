"""Source files of a user's own classes and functions, and of their imports."""

from __future__ import annotations

import ast
import importlib.util
import re
import sysconfig
from collections.abc import Iterator
from pathlib import Path

from rlcomp.config.source import absolute, source_of
from rlcomp.errors import ConfigError

# A class or function, or what gymnasium imports before it makes an environment, "module:Id-v0".
_NAMED = re.compile(r"((?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*)(?::[\w./-]+|\.[A-Za-z_]\w*)")
_OURS = ("rlcomp", "components", "hydra_plugins")
_INSTALLED = ("site-packages", "dist-packages")


def source_files(dotted: str) -> list[Path]:
    """Return the files of the module that holds a name, and of the modules that it imports.

    The list is empty for a text that is no dotted name, and for names of rlcomp, of Python and of
    installed packages, whose versions are in a checkpoint.
    """
    if not (match := _NAMED.fullmatch(dotted)):
        return []
    files: dict[str, Path] = {}
    waiting = [*_prefixes(match[0] if ":" not in dotted else match[1])]
    while waiting:
        module = waiting.pop()
        if module in files or not _is_own(module.split(".")[0]):
            continue
        try:
            source = source_of(module)
        except ConfigError:  # a class, or a module that does not exist
            continue
        if source is not None:
            files[module] = source[0]
            waiting += _imported_in(module, *source)
    return sorted({*files.values()})


def _prefixes(dotted: str) -> Iterator[str]:
    """Return a dotted name and the names of its packages: importing it runs them as well."""
    words = dotted.split(".")
    return (".".join(words[:end]) for end in range(1, len(words) + 1))


def _is_own(package: str) -> bool:
    """Return whether a top-level package is the user's: not ours, Python's or installed."""
    if package in _OURS:
        return False
    try:
        spec = importlib.util.find_spec(package)
    except (ImportError, ValueError):
        return False
    if spec is None:
        return False
    library = Path(sysconfig.get_path("stdlib")).resolve()
    places = [spec.origin] if spec.origin else [*(spec.submodule_search_locations or [])]
    paths = [Path(place).resolve() for place in places]
    return all(
        path.exists() and library not in path.parents and not {*_INSTALLED} & {*path.parts}
        for path in paths
    )


def _imported_in(module: str, path: Path, tree: ast.Module) -> Iterator[str]:
    for line in ast.walk(tree):
        if isinstance(line, ast.Import):
            for alias in line.names:
                yield from _prefixes(alias.name)
        elif isinstance(line, ast.ImportFrom):
            home = absolute(module, path, line)
            for alias in line.names:
                yield from _prefixes(f"{home}.{alias.name}")
