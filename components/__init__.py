"""The parts of rlcomp, one folder a concept: ``from components import GroupMean, PolicyLoss``.

A name is looked up in the sources at its first use, and only its own module is imported.
"""

from __future__ import annotations

import difflib
import importlib
import re
import sys
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


def _nearest(name: str) -> str:
    """Suggest the class or concept whose name is most like this one."""
    plain = {known.lower(): known for known in (*sorted(_concepts()), *_modules())}
    near = difflib.get_close_matches(name.replace("_", "").lower(), plain, n=1)
    return f"; did you mean {plain[near[0]]!r}?" if near else ""


def __getattr__(name: str) -> Any:  # noqa: ANN401
    if name in _concepts():
        return importlib.import_module(f"{__name__}.{name}")
    if (module := _modules().get(name)) is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}{_nearest(name)}")
    try:
        return getattr(importlib.import_module(module), name)
    except AttributeError as error:  # Python would say that there is no such name
        raise ImportError(f"{module} cannot be imported: {error}") from error


class _NearestName:
    """Finder that adds the nearest name to the error of ``from components import Name``.

    Python replaces the AttributeError by "cannot import name", after it has looked for a module
    ``Name``.
    """

    @staticmethod
    def find_spec(fullname: str, path: object = None, target: object = None) -> None:
        package, _, name = fullname.rpartition(".")
        if package != __name__ or name in _concepts() or name in _modules():
            return  # another finder has it, or says why it has not
        if near := _nearest(name):
            message = f"module {__name__!r} has no attribute {name!r}{near}"
            raise ImportError(message, name=fullname)


sys.meta_path.append(_NearestName)
