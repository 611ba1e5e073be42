"""Recipes and experiments of one's own: what must stand at the top of their yamls."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

import yaml  # type: ignore[import-untyped]

from rlcomp.errors import ConfigError

_PACKAGE = "# @package _global_"
_DEFAULTS = "defaults:\n  - grpo\n  - _self_"


def check_own_yamls(words: Sequence[str], directories: Iterable[str]) -> None:
    """Refuse a recipe or experiment that would change nothing, or that has no stages.

    Args:
        words: of the command line.
        directories: of the user's own configs.

    Raises:
        ConfigError: names the file and the lines to put at its top.
    """
    for word in words:
        group, _, names = word.partition("=")
        if group in ("recipe", "experiment"):
            for file in (
                Path(place, group, f"{name}.yaml")
                for name in names.split(",")
                for place in directories
            ):
                if file.is_file() and (lines := _lacking(group, file)):
                    raise ConfigError(f"{file}: put at its top\n{lines}")


def _lacking(group: str, file: Path) -> str:
    """The lines that a file lacks: where it belongs, and what it starts from."""
    text = file.read_text(encoding="utf-8", errors="replace")
    try:
        yaml.safe_load(text)
    except yaml.YAMLError:  # told, with its line, by who reads it
        return ""
    lacks = [] if re.search(r"^#\s*@package\s+_global_\s*$", text, re.MULTILINE) else [_PACKAGE]
    whole = re.search(r"^(defaults|\s+stages)\s*:", text, re.MULTILINE)
    if group == "recipe" and not whole:
        lacks = [_PACKAGE, _DEFAULTS]
    return "\n".join(lacks)
