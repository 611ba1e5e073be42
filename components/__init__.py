"""The parts of rlcomp, one folder per concept: ``from components import GroupMean, PolicyLoss``.

A name is looked up in the sources at its first use, and only its own module is imported. Each
concept looks up its own parts in the same way: ``from components.loss import PolicyLoss``. Editors
read the names from the stubs (``__init__.pyi``) that ``docs/make_stubs.py`` writes.
"""

from __future__ import annotations

import difflib
import importlib
import importlib.machinery
import re
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

_FOLDER = Path(__file__).parent


@cache
def _modules() -> dict[str, str]:
    """Return the module of each public class by its name, which is unique."""
    modules: dict[str, str] = {}
    for file in sorted(_FOLDER.rglob("*.py")):
        module = ".".join((__name__, *file.relative_to(_FOLDER).with_suffix("").parts))
        text = file.read_text(encoding="utf-8")
        modules |= dict.fromkeys(re.findall(r"^class ([A-Z]\w*)", text, re.MULTILINE), module)
    return modules


@cache
def _concepts() -> frozenset[str]:
    """Return the names of the concepts, which are modules and packages."""
    names = (path.stem for path in _FOLDER.iterdir() if path.is_dir() or path.suffix == ".py")
    return frozenset(name for name in names if name[0] != "_")


def parts_of(package: str) -> dict[str, str]:
    """Return the module of each part of a concept, by the name of its class.

    Args:
        package: dotted name of a package or of a module, such as ``components.loss``.
    """
    return {
        name: module
        for name, module in _modules().items()
        if f"{module}.".startswith(f"{package}.")
    }


def _nearest(name: str, package: str) -> str:
    """Return a suggestion of the nearest part or concept; empty without one.

    Parts of other concepts are suggested only if the package has no near part.
    """
    concepts = sorted(_concepts()) if package == __name__ else []
    wanted = name.replace("_", "").lower()
    names = {known.lower(): known for known in (*concepts, *parts_of(package))}
    if near := difflib.get_close_matches(wanted, names, n=1):
        return f"; did you mean {names[near[0]]!r}?"
    if not name[0].isupper():  # not the name of a class
        return ""
    parts = {known.lower(): f"{module}.{known}" for known, module in _modules().items()}
    near = difflib.get_close_matches(wanted, parts, n=1, cutoff=0.8)
    return f"; did you mean {parts[near[0]]!r}?" if near else ""


def lookup(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` of a package whose parts are imported at first use.

    Args:
        package: dotted name of the package.
    """

    def find(name: str) -> Any:  # noqa: ANN401
        if package == __name__ and name in _concepts():
            return importlib.import_module(f"{__name__}.{name}")
        if (module := parts_of(package).get(name)) is None:
            near = _nearest(name, package)
            raise AttributeError(f"module {package!r} has no attribute {name!r}{near}")
        try:
            return getattr(importlib.import_module(module), name)
        except AttributeError as error:  # otherwise Python would deny that the name exists
            raise ImportError(f"{module} cannot be imported: {error}") from error

    def list_names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *parts_of(package)})

    return find, list_names


__getattr__, __dir__ = lookup(__name__)


class _ConceptModule:
    """Finder that gives a concept of one module an empty ``__path__``.

    So Python looks for a submodule ``Name`` at ``from components.kl import Name`` and calls
    :class:`_NearestName`.
    """

    @staticmethod
    def find_spec(
        fullname: str, path: object = None, target: object = None
    ) -> importlib.machinery.ModuleSpec | None:
        package, _, name = fullname.rpartition(".")
        if package != __name__ or not (_FOLDER / f"{name}.py").is_file():
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, [str(_FOLDER)])
        if spec is not None:
            spec.submodule_search_locations = []
        return spec


class _NearestName:
    """Finder that adds the nearest name to the error of ``from components.loss import Name``.

    Python replaces the AttributeError by "cannot import name", after it has looked for a module
    ``Name``.
    """

    @staticmethod
    def find_spec(fullname: str, path: object = None, target: object = None) -> None:
        package, _, name = fullname.rpartition(".")
        if package != __name__ and not package.startswith(f"{__name__}."):
            return
        folder = _FOLDER.joinpath(*package.split(".")[1:])
        is_module = (folder / name).exists() or (folder / f"{name}.py").exists()
        if is_module or name in parts_of(package):
            return  # another finder reports why it cannot be imported
        if near := _nearest(name, package):
            message = f"module {package!r} has no attribute {name!r}{near}"
            raise ImportError(message, name=fullname)


sys.meta_path.insert(0, _ConceptModule)
sys.meta_path.append(_NearestName)
