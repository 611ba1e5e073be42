"""The configs that come with the project: where they are, and what they offer."""

from __future__ import annotations

import re
from pathlib import Path

from rlcomp.errors import ConfigError
from rlcomp.run.declare import declare

_TARGET = re.compile(r"^_target_:\s*(\S+)\s*$", re.MULTILINE)


def config_directory() -> Path:
    """Where the configs are: in the wheel, or beside the packages in a checkout."""
    inside = Path(__file__).parents[1] / "conf"
    return inside if inside.is_dir() else Path(__file__).parents[2] / "conf"


def options_writing(key: str) -> list[str]:
    """The choices (``group=option``) whose part writes a key."""
    found = []
    for file in sorted(config_directory().glob("**/*.yaml")):
        target = _TARGET.search(file.read_text(encoding="utf-8"))
        if target is None:
            continue
        try:
            part = declare(target.group(1))
        except ConfigError:
            continue  # an option whose package is not installed offers nothing here
        if key in part.writes and not (part.fresh and key in part.optional):
            group = file.parent.relative_to(config_directory()).as_posix()
            found.append(f"{group}={file.stem}")
    return found
