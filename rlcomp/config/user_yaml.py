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

# Most files of the working directory that are read.
_MAX_FILES = 100
# Keys of other libraries for _target_, and misspellings.
_TARGETS = ("target", "_target", "target_", "class", "_class_", "class_path", "class_name", "cls")


def likely_target(node: Mapping[object, object]) -> tuple[str, str] | None:
    """Return the key that a part has in place of ``_target_``, and its value; None: it has none.

    Examples:
        >>> likely_target({"class": "mine.Centred", "scale": 2})
        ('class', 'mine.Centred')
        >>> likely_target({"_target_": "mine.Centred", "class": "a.b"}), likely_target({"class": 3})
        (None, None)
    """
    candidates = [(key, node[key]) for key in _TARGETS if key in node and "_target_" not in node]
    return next(((key, text) for key, text in candidates if _is_dotted(text)), None)


def _is_dotted(text: object) -> TypeGuard[str]:
    return isinstance(text, str) and re.fullmatch(r"[\w/]+([.:]\w+)+", text) is not None


def check_own_yamls(words: Sequence[str], directories: Iterable[str]) -> None:
    """Check the user's yamls that a command line chooses.

    Args:
        words: words of the command line.
        directories: directories of the user's own configs.

    Raises:
        ConfigError: a recipe or experiment lacks lines at its top, so that it would change nothing
            or have no stages; a part has a wrong key in place of ``_target_``; or its ``_target_``
            has no module.
    """
    directories = [*directories]
    for word in words:
        key, _, names = word.lstrip("+").partition("=")
        group = key.partition("@")[0]
        for name in names.strip("[]").split(",") if "." not in group else ():
            for directory in directories:
                if (file := Path(directory, group, f"{name}.yaml")).is_file():
                    _check(group, file)


def _check(group: str, file: Path) -> None:
    if group in ("recipe", "experiment") and (lines := _missing_lines(group, file)):
        raise ConfigError(f"{file}: put at its top\n{lines}")
    try:
        node = yaml.safe_load(file.read_text(encoding="utf-8", errors="replace"))
    except (yaml.YAMLError, RecursionError):  # composition reports it, with its line
        return
    if isinstance(node, dict) and (likely := likely_target(node)):
        key, text = likely
        raise ConfigError(f"{file}: {key!r} has to be _target_; write _target_: {text}")
    target = node.get("_target_") if isinstance(node, dict) else None
    if isinstance(target, str) and re.fullmatch(r"[A-Za-z_]\w*", target):
        raise ConfigError(
            f"{file}: _target_ is {target!r}: must be package.module.Name{_modules_with(target)}"
        )


def _modules_with(name: str) -> str:
    """Return the modules of the working directory that define a name, as the remedy."""
    line = re.compile(rf"^(class|def) {name}\b", re.MULTILINE)
    files = sorted(Path().glob("*.py"))[:_MAX_FILES]
    texts = ((file.stem, file.read_text(encoding="utf-8", errors="replace")) for file in files)
    names = [f"{stem}.{name}" for stem, text in texts if line.search(text)]
    return f"; write _target_: {' or '.join(names)}" if names else ""


def _missing_lines(group: str, file: Path) -> str:
    """Return the lines that a file lacks: its package; both lines for a recipe without stages.

    The result is empty for a file that lacks none.
    """
    text = file.read_text(encoding="utf-8", errors="replace")
    try:
        yaml.safe_load(text)
    except yaml.YAMLError:  # composition reports it, with its line
        return ""
    missing = [] if re.search(r"^#\s*@package\s+_global_\s*$", text, re.MULTILINE) else [_PACKAGE]
    whole = re.search(r"^(defaults|\s+stages)\s*:", text, re.MULTILINE)
    if group == "recipe" and not whole:
        missing = [_PACKAGE, _DEFAULTS]
    return "\n".join(missing)
