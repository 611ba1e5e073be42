"""Definitions by dotted name, found in source files without importing anything."""

from __future__ import annotations

import ast
import importlib.util
import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from rlcomp.errors import ConfigError, nearest

Definition = ast.ClassDef | ast.FunctionDef


@cache
def _source(module: str) -> tuple[Path, ast.Module] | None:
    """Path and syntax tree of a module, found without importing it or its parents."""
    top, *rest = module.split(".")
    try:
        spec = importlib.util.find_spec(top)
    except (ImportError, ValueError):
        spec = None
    if spec is None:
        raise ConfigError(f"there is no package '{top}' (from '{module}'); is it installed?")
    if spec.origin is None and not spec.submodule_search_locations:
        return None
    places = [Path(place) for place in spec.submodule_search_locations or []]
    path = Path(spec.origin) if spec.origin and os.path.isfile(spec.origin) else None
    for name in rest:
        path, places = _step(module, name, places)
    if path is None or path.suffix != ".py":
        return None
    try:
        return path, ast.parse(path.read_text(encoding="utf-8"))
    except SyntaxError as error:
        raise ConfigError(f"{path}, line {error.lineno}: {error.msg}") from None


def _step(module: str, name: str, places: list[Path]) -> tuple[Path | None, list[Path]]:
    for place in places:
        if (place / name).is_dir():
            inside = place / name / "__init__.py"
            return (inside if inside.is_file() else None), [place / name]
        if (place / f"{name}.py").is_file():
            return place / f"{name}.py", []
    if any(list(place.glob(f"{name}.*.so")) for place in places):
        return None, []
    known = {
        entry.stem for place in places for entry in place.iterdir() if entry.stem[0] not in "._"
    }
    raise ConfigError(
        f"there is no module '{name}' in '{module}'{nearest(name, known - {'__init__'})}"
    )


def _statements(tree: ast.Module) -> Iterator[ast.stmt]:
    """Top-level statements, looking into ``if`` and ``try``."""
    queue = list(tree.body)
    while queue:
        line = queue.pop(0)
        yield line
        if isinstance(line, (ast.If, ast.Try)):
            queue = [*line.body, *line.orelse, *queue]


def find(module: str, name: str, depth: int = 0) -> tuple[str, Definition] | None:
    """The definition of a name, following imports; None if it cannot be resolved."""
    found = None if module == "builtins" or depth > 8 else _source(module)
    if found is None:
        return None
    path, tree = found
    for line in _statements(tree):
        if isinstance(line, (ast.ClassDef, ast.FunctionDef)) and line.name == name:
            return module, line
        original = _imported(line, name)
        if original is not None and isinstance(line, ast.ImportFrom):
            return find(_absolute(module, path, line), original, depth + 1)
        if name in _assigned(line):
            return None
    if depth or any(map(_dynamic, _statements(tree))):
        return None
    known = {line.name for line in tree.body if isinstance(line, (ast.ClassDef, ast.FunctionDef))}
    public = {known_name for known_name in known if not known_name.startswith("_")}
    raise ConfigError(f"'{module}' has no '{name}'{nearest(name, public)}")


def _imported(line: ast.stmt, name: str) -> str | None:
    """Under which name a statement imports ``name`` from elsewhere, if it does."""
    if not isinstance(line, ast.ImportFrom):
        return None
    return next((alias.name for alias in line.names if (alias.asname or alias.name) == name), None)


def _dynamic(line: ast.stmt) -> bool:
    """Whether a statement can define names dynamically."""
    if isinstance(line, ast.ImportFrom):
        return any(alias.name == "*" for alias in line.names)
    named = isinstance(line, ast.FunctionDef) and line.name == "__getattr__"
    return named or (isinstance(line, ast.Assign) and "sys" in ast.dump(line))


def _assigned(line: ast.stmt) -> list[str]:
    if isinstance(line, ast.Assign):
        return [target.id for target in line.targets if isinstance(target, ast.Name)]
    if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name):
        return [line.target.id]
    if isinstance(line, ast.Import):
        return [(alias.asname or alias.name).split(".")[0] for alias in line.names]
    return []


def _absolute(module: str, path: Path, line: ast.ImportFrom) -> str:
    if not line.level:
        return line.module or ""
    package = module.split(".") if path.name == "__init__.py" else module.split(".")[:-1]
    kept = package[: len(package) - line.level + 1]
    return ".".join([*kept, *([line.module] if line.module else [])])


def lineage(home: str, cls: ast.ClassDef) -> Iterator[tuple[str, ast.ClassDef]]:
    """The class and its bases, depth first, as far as sources can be resolved."""
    yield home, cls
    for base in cls.bases:
        if isinstance(base, ast.Name) and base.id != "object":
            try:
                found = find(home, base.id)
            except ConfigError:
                continue
            if found and isinstance(found[1], ast.ClassDef):
                yield from lineage(found[0], found[1])


def alias(module: str, name: str, depth: int = 0) -> tuple[str, ast.expr] | None:
    """What a module-level name stands for (``Estimator = Literal[...]``), and in which module.

    Follows imports of names; None for classes, functions and whatever cannot be followed.
    """
    try:
        found = _source(module) if depth < 4 else None
    except ConfigError:
        return None
    if found is None:
        return None
    path, tree = found
    for line in _statements(tree):
        original = _imported(line, name)
        if original is not None and isinstance(line, ast.ImportFrom):
            return alias(_absolute(module, path, line), original, depth + 1)
        if isinstance(line, (ast.Assign, ast.AnnAssign)) and name in _assigned(line):
            return None if line.value is None else (module, line.value)
    return None
