"""The parts of rlcomp, one folder a concept: ``from components import GroupMean, PolicyLoss``.

A name is looked up in the sources at its first use, and only its own module is imported. Each
concept looks up its own parts in the same way: ``from components.loss import PolicyLoss``. Editors
read the names from the stubs (``__init__.pyi``) that ``docs/make_stubs.py`` writes.
"""

from __future__ import annotations

import difflib
import importlib
import re
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

_FOLDER = Path(__file__).parent


@cache
def _modules() -> dict[str, str]:
    """Return the module of each public class; no two have one name."""
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
    """Return the module of each part in a package and below it, by the name of its class.

    Args:
        package: dotted name, such as ``components.loss``.
    """
    return {name: one for name, one in _modules().items() if one.startswith(f"{package}.")}


def _nearest(name: str, package: str = __name__) -> str:
    """Suggest the part or concept whose name is most like this one."""
    concepts = sorted(_concepts()) if package == __name__ else []
    plain = {known.lower(): known for known in (*concepts, *parts_of(package))}
    near = difflib.get_close_matches(name.replace("_", "").lower(), plain, n=1)
    return f"; did you mean {plain[near[0]]!r}?" if near else ""


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
        except AttributeError as error:  # Python would say that there is no such name
            raise ImportError(f"{module} cannot be imported: {error}") from error

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *parts_of(package)})

    return find, names


__getattr__, __dir__ = lookup(__name__)


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
        if (
            (folder / name).exists()
            or (folder / f"{name}.py").exists()
            or name in parts_of(package)
        ):
            return  # another finder has it, or says why it has not
        if near := _nearest(name, package):
            message = f"module {package!r} has no attribute {name!r}{near}"
            raise ImportError(message, name=fullname)


sys.meta_path.append(_NearestName)
