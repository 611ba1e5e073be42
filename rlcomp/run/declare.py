"""What a target declares, read from its source: no import of it, so no torch.

A class's constructor is its schema; ``reads``, ``writes`` and the other declarations of
:class:`rlcomp.component.Component` are literals. A target whose source cannot be followed (a C
type, a lazily exported name) is *opaque*: it is looked at once it is built.
"""

from __future__ import annotations

import ast
import importlib.util
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from rlcomp.check import VOCABULARY
from rlcomp.errors import ConfigError, nearest

Definition = ast.ClassDef | ast.FunctionDef
_DECLARED = (
    "reads",
    "writes",
    "fresh",
    "runs",
    "contained",
    "min_group_size",
    "exclusive",
)


@dataclass(frozen=True)
class Parameter:
    """One argument of a constructor."""

    annotation: Any
    required: bool


@dataclass(frozen=True)
class Declaration:
    """What is known of a target before it is built."""

    target: str
    parameters: dict[str, Parameter] = field(default_factory=dict)
    open_ended: bool = False
    opaque: bool = True
    doc: str = ""
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    fresh: bool = False
    runs: tuple[str, ...] = ()
    contained: bool = False
    min_group_size: int = 1
    exclusive: str = ""

    @property
    def name(self) -> str:
        """The class's or function's own name."""
        return self.target.rpartition(".")[2]


@cache
def declare(target: str) -> Declaration:
    """The declaration of a dotted target.

    Raises:
        ConfigError: there is no such module, or it has no such name.
    """
    module, _, name = target.rpartition(".")
    found = _find(module, name)
    if found is None:
        return Declaration(target, open_ended=True)
    home, definition = found
    doc = ast.get_docstring(definition) or ""
    if isinstance(definition, ast.FunctionDef):
        parameters, open_ended = _parameters(definition, skip=0)
        return Declaration(target, parameters, open_ended, True, doc)
    lineage = list(_lineage(home, definition))
    parameters, open_ended = _constructor(lineage)
    declared: dict[str, Any] = {}
    for _, cls in reversed(lineage):
        declared |= dict(_literals(cls))
    component = any((home, cls.name) == ("rlcomp.component", "Component") for home, cls in lineage)
    return Declaration(target, parameters, open_ended, not component, doc, **declared)


def _literals(cls: ast.ClassDef) -> Iterator[tuple[str, Any]]:
    for line in cls.body:
        if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name):
            name, value = line.target.id, line.value
        elif isinstance(line, ast.Assign) and isinstance(line.targets[0], ast.Name):
            name, value = line.targets[0].id, line.value
        else:
            continue
        if name in _DECLARED and value is not None:
            try:
                yield name, ast.literal_eval(value)
            except ValueError:
                raise ConfigError(
                    f"{cls.name}.{name} is not a literal: write it out, it is read from source"
                ) from None


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


def _find(module: str, name: str, depth: int = 0) -> tuple[str, Definition] | None:
    """Where a name is really defined; None when the trail is lost."""
    found = None if module == "builtins" or depth > 8 else _source(module)
    if found is None:
        return None
    path, tree = found
    for line in _statements(tree):
        if isinstance(line, (ast.ClassDef, ast.FunctionDef)) and line.name == name:
            return module, line
        original = _imported(line, name)
        if original is not None and isinstance(line, ast.ImportFrom):
            return _find(_absolute(module, path, line), original, depth + 1)
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
    """Whether a statement can make names that are not written down."""
    if isinstance(line, ast.ImportFrom):
        return any(alias.name == "*" for alias in line.names)
    named = isinstance(line, ast.FunctionDef) and line.name == "__getattr__"
    return named or (isinstance(line, ast.Assign) and "sys" in ast.dump(line))


def _assigned(line: ast.stmt) -> list[str]:
    if isinstance(line, ast.Assign):
        return [target.id for target in line.targets if isinstance(target, ast.Name)]
    if isinstance(line, ast.Import):
        return [(alias.asname or alias.name).split(".")[0] for alias in line.names]
    return []


def _absolute(module: str, path: Path, line: ast.ImportFrom) -> str:
    if not line.level:
        return line.module or ""
    package = module.split(".") if path.name == "__init__.py" else module.split(".")[:-1]
    kept = package[: len(package) - line.level + 1]
    return ".".join([*kept, *([line.module] if line.module else [])])


def _lineage(home: str, cls: ast.ClassDef) -> Iterator[tuple[str, ast.ClassDef]]:
    """The class, then its bases depth first, as far as sources can be followed."""
    yield home, cls
    for base in cls.bases:
        if isinstance(base, ast.Name) and base.id != "object":
            try:
                found = _find(home, base.id)
            except ConfigError:
                continue
            if found and isinstance(found[1], ast.ClassDef):
                yield from _lineage(found[0], found[1])


def _constructor(lineage: list[tuple[str, ast.ClassDef]]) -> tuple[dict[str, Parameter], bool]:
    for _, cls in lineage:
        for line in cls.body:
            if isinstance(line, ast.FunctionDef) and line.name == "__init__":
                return _parameters(line, skip=1)
        if any("dataclass" in ast.dump(mark) for mark in cls.decorator_list):
            return _fields(cls), False
    unfollowed = lineage[-1][1].bases or lineage[-1][1].keywords
    return {}, bool(unfollowed)


def _fields(cls: ast.ClassDef) -> dict[str, Parameter]:
    return {
        line.target.id: Parameter(_annotation(line.annotation), line.value is None)
        for line in cls.body
        if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name)
    }


def _parameters(function: ast.FunctionDef, skip: int) -> tuple[dict[str, Parameter], bool]:
    arguments = function.args
    plain = [*arguments.posonlyargs, *arguments.args]
    free = len(plain) - len(arguments.defaults)
    found = {
        argument.arg: Parameter(_annotation(argument.annotation), place < free)
        for place, argument in enumerate(plain)
        if place >= skip
    }
    for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        found[argument.arg] = Parameter(_annotation(argument.annotation), default is None)
    return found, arguments.kwarg is not None


class _Names(Mapping[str, Any]):
    """The vocabulary of annotations; every other name stands for anything."""

    def __getitem__(self, name: str) -> Any:  # noqa: ANN401
        return VOCABULARY.get(name, Any)

    def __iter__(self) -> Iterator[str]:
        return iter(VOCABULARY)

    def __len__(self) -> int:
        return len(VOCABULARY)


def _annotation(node: ast.expr | None) -> Any:  # noqa: ANN401
    if node is None:
        return Any
    code = compile(ast.Expression(node), "<annotation>", "eval")
    try:
        value = eval(code, {"__builtins__": {}}, _Names())
    except (TypeError, AttributeError):
        return Any
    return Any if isinstance(value, str) else value
