"""The shipped configs: their directory and the options of each group."""

from __future__ import annotations

import re
from pathlib import Path

from rlcomp.errors import ConfigError
from rlcomp.wiring.declare import declare

_TARGET = re.compile(r"^\s*_target_:\s*(\S+)\s*$", re.MULTILINE)
_PACKAGED = re.compile(r"^\s*- /([\w/]+)@(\w+): ", re.MULTILINE)


def config_directory() -> Path:
    """Where the configs are: in the wheel, or beside the packages in a checkout."""
    inside = Path(__file__).parents[1] / "conf"
    return inside if inside.is_dir() else Path(__file__).parents[2] / "conf"


def options_writing(key: str) -> list[str]:
    """The choices (``group=option``) whose part writes a key."""
    found = []
    for file in sorted(config_directory().glob("**/*.yaml")):
        targets = _TARGET.findall(file.read_text(encoding="utf-8"))
        if any(_writes(target, key) for target in targets):
            group = file.parent.relative_to(config_directory()).as_posix()
            found.append(f"{placed(group)}={file.stem}")
    return found


def _writes(target: str, key: str) -> bool:
    try:
        part = declare(target)
    except ConfigError:
        return False  # an option whose package is not installed offers nothing here
    return key in part.writes and not (part.fresh and key in part.optional)


def placed(group: str) -> str:
    """A group as the command line names it: ``collector`` is chosen as ``collector@rollout``."""
    recipe = (config_directory() / "recipe" / "grpo.yaml").read_text(encoding="utf-8")
    return f"{group}@{dict(_PACKAGED.findall(recipe))[group]}" if f"/{group}@" in recipe else group
