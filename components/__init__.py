"""The parts of rlcomp, one folder a concept: ``from components import GroupMean, PolicyLoss``.

Names are looked up in the source when they are first asked for; nothing else is imported.
"""

from __future__ import annotations

import importlib
import re
from functools import cache
from pathlib import Path
from typing import Any

_HERE = Path(__file__).parent


@cache
def _homes(name: str) -> list[str]:
    """The modules with a class of this name."""
    defined = re.compile(rf"^class {name}\b", re.MULTILINE)
    files = [file for file in sorted(_HERE.rglob("*.py")) if file.name != "__init__.py"]
    found = [file for file in files if defined.search(file.read_text(encoding="utf-8"))]
    return [".".join((__name__, *file.relative_to(_HERE).with_suffix("").parts)) for file in found]


def __getattr__(name: str) -> Any:  # noqa: ANN401
    homes = _homes(name) if re.fullmatch("[A-Z][A-Za-z0-9]*", name) else []
    if not homes:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if len(homes) > 1:
        raise AttributeError(f"{name} is in {' and in '.join(homes)}: import it from there")
    return getattr(importlib.import_module(homes[0]), name)
