"""Definitions by dotted name, looked up in source files; no module is imported."""

from __future__ import annotations

import ast
import importlib.util
import os
import re
import tokenize
import warnings
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from rlcomp.errors import ConfigError, nearest

Definition = ast.ClassDef | ast.FunctionDef
# The statement that binds a name, and the value of a plain assignment. The function ``bindings``
# yields other pairs: a name and that value.
Binding = tuple[ast.stmt, ast.expr | None]

_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_INNER = (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
# Largest source that is read, in characters. Real modules are far smaller.
_MAX_LENGTH = 2**23
# Longest chains of imports that are followed to a definition, and to a value; a cycle ends there.
_MAX_DEFINITION_IMPORTS, _MAX_VALUE_IMPORTS = 8, 3


@cache
def source_of(module: str) -> tuple[Path, ast.Module] | None:
    """Return the path and the syntax tree of a module, without importing it or its parents.

    Returns:
        None if the module is not written in Python, or is a folder without ``__init__.py``.

    Raises:
        ConfigError: there is no such module, or it cannot be read.
    """
    top, *rest = module.split(".")
    try:
        spec = importlib.util.find_spec(top)
    except (ImportError, ValueError):
        spec = None
    if spec is None:
        raise ConfigError(f"there is no package '{top}' (from '{module}'); is it installed?")
    if spec.origin is None and not spec.submodule_search_locations:
        return None
    folders = [Path(location) for location in spec.submodule_search_locations or []]
    path = Path(spec.origin) if spec.origin and os.path.isfile(spec.origin) else None
    for name in rest:
        try:
            path, folders = _submodule(module, name, folders)
        except OSError as error:
            raise ConfigError(f"'{module}' cannot be searched: {_one_line(str(error))}") from None
    if path is None or path.suffix != ".py":
        return None
    return path, _parse(path)


def _parse(path: Path) -> ast.Module:
    try:
        with tokenize.open(path) as file:
            text = file.read(_MAX_LENGTH + 1)
        if len(text) > _MAX_LENGTH:
            raise ValueError(f"longer than {_MAX_LENGTH} characters")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(text)
    except SyntaxError as error:
        line = f", line {error.lineno}" if error.lineno else ""
        raise ConfigError(f"{path}{line}: {_one_line(error.msg)}") from None
    except (OSError, ValueError, LookupError, RecursionError, MemoryError) as error:
        reason = _one_line(str(error)) or "too deeply nested"
        raise ConfigError(f"{path} cannot be read ({type(error).__name__}): {reason}") from None


def _one_line(message: str) -> str:
    return " ".join(message.split())[:200]


def _submodule(module: str, name: str, folders: list[Path]) -> tuple[Path | None, list[Path]]:
    """Return the file of a name in the folders of a package, and its own folders.

    The file is None for an extension module, and for a folder without ``__init__.py``.
    """
    if not re.fullmatch(r"[\w-]+", name):
        raise ConfigError(f"there is no module {name!r} in {module!r}")
    folders = [folder for folder in folders if folder.is_dir()]
    for folder in folders:
        if (init := folder / name / "__init__.py").is_file():
            return init, [folder / name]
        if (folder / f"{name}.py").is_file():
            return folder / f"{name}.py", []
    if any(list(folder.glob(f"{name}.*.so")) for folder in folders):
        return None, []
    # As for Python, a folder without __init__.py comes last.
    if namespaces := [folder / name for folder in folders if (folder / name).is_dir()]:
        return None, namespaces
    entries = (entry for folder in folders for entry in folder.iterdir())
    known = {entry.stem for entry in entries if entry.stem[0] not in "._"}
    raise ConfigError(
        f"there is no module '{name}' in '{module}'{nearest(name, known - {'__init__'})}"
    )


def _statements(tree: ast.Module) -> Iterator[ast.stmt]:
    """Yield the top-level statements, also those within ``if``, ``try`` and ``with``.

    Those of ``except`` and ``finally`` are left out: the last binding is then the usual one.
    """
    stack = tree.body[::-1]
    while stack:
        statement = stack.pop()
        yield statement
        if isinstance(statement, (ast.If, ast.Try)):
            stack += [*statement.body, *statement.orelse][::-1]
        elif isinstance(statement, ast.With):
            stack += statement.body[::-1]


def bindings(statement: ast.stmt) -> Iterator[tuple[str, ast.expr | None]]:
    """Yield the names that a statement binds in its scope, with the value of a plain assignment."""
    values: dict[str, ast.expr] = {}
    if isinstance(statement, (ast.Assign, ast.AnnAssign)):
        if statement.value is None:  # an annotation alone binds nothing
            return
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        values = {target.id: statement.value for target in targets if isinstance(target, ast.Name)}
    for name in _assigned_names(statement):
        yield name, values.get(name)


def _assigned_names(statement: ast.stmt) -> Iterator[str]:
    """Yield each name that a statement binds or deletes, except in inner scopes."""
    stack: list[ast.AST] = [statement]
    while stack:
        node = stack.pop()
        if isinstance(node, _SCOPES):
            yield node.name
        elif isinstance(node, ast.alias):
            yield (node.asname or node.name).split(".")[0]
        elif not isinstance(node, _INNER):
            # The target of ``except``, the captures of ``match``, then names that are not loaded.
            yield from (str(n) for f in ("name", "rest") if (n := getattr(node, f, None)))
            if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
                yield node.id
            stack.extend(ast.iter_child_nodes(node))


@cache
def _bindings_by_name(module: str) -> dict[str, list[Binding]]:
    """Return the bindings of each name of a module, in source order."""
    by_name: dict[str, list[Binding]] = defaultdict(list)
    source = source_of(module)
    for statement in _statements(source[1]) if source else ():
        for name, value in bindings(statement):
            by_name[name].append((statement, value))
    return dict(by_name)


def find(
    module: str, name: str, depth: int = 0, before: int | None = None
) -> tuple[str, Definition] | None:
    """Return the last definition of a name, following imports; None if it cannot be followed.

    Args:
        module: dotted name of the module.
        name: a name of the module.
        depth: number of imports followed so far.
        before: prefer the last binding above this line.

    Raises:
        ConfigError: there is no such module or name.
    """
    source = None if module == "builtins" or depth > _MAX_DEFINITION_IMPORTS else source_of(module)
    if source is None:
        return None
    path, tree = source
    bound = [statement for statement, _ in _bindings_by_name(module).get(name, ())]
    above = [statement for statement in bound if before is not None and statement.lineno < before]
    for statement in (above or bound)[-1:]:
        if isinstance(statement, (ast.ClassDef, ast.FunctionDef)):
            return module, statement
        imported = _imported_name(module, path, statement, name)
        return find(*imported, depth + 1) if imported else None
    if depth or any(map(_defines_dynamically, _statements(tree))):
        return None
    names = (line.name for line in tree.body if isinstance(line, (ast.ClassDef, ast.FunctionDef)))
    public = {known for known in names if not known.startswith("_")}
    raise ConfigError(f"'{module}' has no '{name}'{nearest(name, public) if public else ''}")


def _imported_name(
    module: str, path: Path, statement: ast.stmt, name: str
) -> tuple[str, str] | None:
    """Return module and original name of what a statement imports as ``name``; None for others."""
    if isinstance(statement, ast.ImportFrom):
        for entry in statement.names:
            if (entry.asname or entry.name) == name:
                return absolute_module(module, path, statement), entry.name
    return None


def _defines_dynamically(statement: ast.stmt) -> bool:
    """Return whether a statement can define names dynamically."""
    if isinstance(statement, ast.ImportFrom):
        return any(entry.name == "*" for entry in statement.names)
    # A module may also replace itself: sys.modules[__name__] = ...
    named = isinstance(statement, ast.FunctionDef) and statement.name == "__getattr__"
    return named or (isinstance(statement, ast.Assign) and "sys" in ast.dump(statement))


def absolute_module(module: str, path: Path, statement: ast.ImportFrom) -> str:
    """Return the absolute name of the module that a statement of another module imports from."""
    if not statement.level:
        return statement.module or ""
    package = module.split(".") if path.name == "__init__.py" else module.split(".")[:-1]
    names = package[: len(package) - statement.level + 1]
    return ".".join([*names, *([statement.module] if statement.module else [])])


def alias(module: str, name: str, depth: int = 0) -> tuple[str, ast.expr] | None:
    """Return the module and the value of a module-level name (``Estimator = Literal[...]``).

    Imports are followed. None for classes, functions and names that cannot be followed.
    """
    try:
        source = source_of(module) if depth <= _MAX_VALUE_IMPORTS else None
    except ConfigError:
        return None
    bound = _bindings_by_name(module).get(name) if source else None
    if source is None or not bound:
        return None
    statement, value = bound[-1]
    if imported := _imported_name(module, source[0], statement, name):
        return alias(*imported, depth + 1)
    return None if value is None else (module, value)
