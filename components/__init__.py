"""The parts of rlcomp, one folder a concept: ``from components import GroupMean, PolicyLoss``.

Names are looked up in the source when they are first asked for; nothing else is imported.
"""

from __future__ import annotations

import difflib
import importlib
import re
import sys
from functools import cache
from pathlib import Path
from typing import Any

_HERE = Path(__file__).parent
_NAME = re.compile("[A-Z][A-Za-z0-9]*")


@cache
def _classes() -> dict[str, list[str]]:
    """The modules with a class of each name."""
    found: dict[str, list[str]] = {}
    for file in sorted(_HERE.rglob("*.py")):
        module = ".".join((__name__, *file.relative_to(_HERE).with_suffix("").parts))
        for name in re.findall(r"^class (\w+)", file.read_text(encoding="utf-8"), re.MULTILINE):
            found.setdefault(name, []).append(module)
    return found


def _absent(name: str) -> str:
    """Why a name gives no class, and what to write instead."""
    homes = _classes().get(name, []) if _NAME.fullmatch(name) else []
    if len(homes) > 1:
        lines = " or ".join(f"from {home} import {name}" for home in homes)
        places = " and ".join(home.split(".")[1] for home in homes)
        return f"there is a {name} in {places}: {lines}"
    concepts = [one.name for one in _HERE.iterdir() if one.is_dir() and one.name[0] != "_"]
    public = [*concepts, *(one for one in _classes() if _NAME.fullmatch(one))]
    plain = {one.lower(): one for one in public}
    words = name.replace("_", "").lower()
    near = difflib.get_close_matches(words, plain, n=1)
    guess = f"; did you mean {plain[near[0]]!r}?" if near else ""
    return f"module {__name__!r} has no attribute {name!r}{guess}"


def __getattr__(name: str) -> Any:  # noqa: ANN401
    homes = _classes().get(name, []) if _NAME.fullmatch(name) else []
    if len(homes) != 1:
        raise AttributeError(_absent(name))
    try:
        return getattr(importlib.import_module(homes[0]), name)
    except AttributeError as error:  # Python would say that there is no such name
        raise ImportError(f"{homes[0]} cannot be imported: {error}") from error


class _Names:
    """Finder that tells ``from components import Name`` what the AttributeError says.

    Python replaces that error by "cannot import name", after it has looked for a module ``Name``.
    """

    @staticmethod
    def find_spec(fullname: str, path: object = None, target: object = None) -> None:
        package, _, name = fullname.rpartition(".")
        if package == __name__ and ("; did" in (told := _absent(name)) or name in _classes()):
            raise ImportError(told, name=fullname)


sys.meta_path.append(_Names)
