"""Check of the user's yamls: the first lines of recipes, and the ``_target_`` of parts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypeGuard

import yaml  # type: ignore[import-untyped]

from rlcomp.errors import ConfigError

_PACKAGE = "# @package _global_"
_DEFAULTS = "defaults:\n  - grpo\n  - _self_"

# Files of the working directory.
_LOOKED_AT = 100

# What stands for _target_ elsewhere, or nearly does.
_TARGETS = ("target", "_target", "target_", "class", "_class_", "class_path", "class_name", "cls")


def meant_target(node: Mapping[object, object]) -> tuple[str, str] | None:
    """Return the key of a part that stands for its ``_target_``, and its value; None: none does.

    Examples:
        >>> meant_target({"class": "mine.Centred", "scale": 2})
        ('class', 'mine.Centred')
        >>> meant_target({"_target_": "mine.Centred", "class": "a.b"}), meant_target({"class": 3})
        (None, None)
    """
    candidates = [(key, node[key]) for key in _TARGETS if key in node and "_target_" not in node]
    return next(((key, text) for key, text in candidates if _is_dotted(text)), None)


def _is_dotted(text: object) -> TypeGuard[str]:
    return isinstance(text, str) and re.fullmatch(r"[\w/]+([.:]\w+)+", text) is not None


def check_own_yamls(words: Sequence[str], directories: Iterable[str]) -> None:
    """Refuse a recipe or experiment that would change nothing, or that has no stages.

    Args:
        words: of the command line.
        directories: of the user's own configs.

    Raises:
        ConfigError: names the file and the lines to put at its top; or a part of any group has no
            ``_target_``, and something else in its place.
    """
    places = [*directories]
    for word in words:
        group, _, names = word.lstrip("+").partition("=")
        for file in (
            Path(place, group.partition("@")[0], f"{name}.yaml")
            for name in names.strip("[]").split(",")
            for place in places
        ):
            if file.is_file() and "." not in group.partition("@")[0]:
                _check(group, file)


def _check(group: str, file: Path) -> None:
    if group in ("recipe", "experiment") and (lines := _lacking(group, file)):
        raise ConfigError(f"{file}: put at its top\n{lines}")
    try:
        node = yaml.safe_load(file.read_text(encoding="utf-8", errors="replace"))
    except (yaml.YAMLError, RecursionError):  # told, with its line, by who reads it
        return
    if isinstance(node, dict) and (meant := meant_target(node)):
        key, text = meant
        raise ConfigError(f"{file}: {key!r} has to be _target_; write _target_: {text}")
    target = node.get("_target_") if isinstance(node, dict) else None
    if isinstance(target, str) and re.fullmatch(r"[A-Za-z_]\w*", target):
        raise ConfigError(
            f"{file}: _target_ is {target!r}: must be package.module.Name{_defined(target)}"
        )


def _defined(name: str) -> str:
    """Return the modules of this directory that define a name, as the remedy."""
    line = re.compile(rf"^(class|def) {name}\b", re.MULTILINE)
    files = sorted(Path().glob("*.py"))[:_LOOKED_AT]
    texts = ((file.stem, file.read_text(encoding="utf-8", errors="replace")) for file in files)
    names = [f"{stem}.{name}" for stem, text in texts if line.search(text)]
    return f"; write _target_: {' or '.join(names)}" if names else ""


def _lacking(group: str, file: Path) -> str:
    """Return the lines that a file lacks: its package, and the recipe it starts from."""
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
