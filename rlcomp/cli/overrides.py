"""Overrides that Hydra takes, or refuses without saying which one it means."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override

from rlcomp.errors import UserError, nearest

# What every run has: there is nothing to fall back on.
_SETTINGS = ("seed", "device", "directory", "resume", "overwrite", "trust")


def check_overrides(words: Sequence[str], places: Sequence[Path]) -> None:
    """Refuse overrides that cannot mean what they say.

    Args:
        words: the overrides of a command line.
        places: the directories of configs: ours and the user's own.

    Raises:
        UserError: names the override and the remedy.
    """
    for override in OverridesParser.create().parse_overrides(list(words)):
        if fault := _fault(override, places):
            raise UserError(f"{override.input_line}: {fault}")


def _fault(override: Override, places: Sequence[Path]) -> str | None:
    key = override.key_or_group
    if override.is_delete():
        deleted = key in _SETTINGS
        return f"every run has a {key}; leave this out, or set {key}=..." if deleted else None
    if not key:
        return "there is no key in front of the ="
    if override.is_sweep_override():
        values = not override.is_discrete_sweep() or any(True for _ in override.sweep_iterator())
        return None if values else "the sweep has no values"
    value = override.value()
    if value == {} and not override.is_add():
        return (
            "this changes nothing, for Hydra adds what is given to what is there; delete what is "
            f"not wanted by its name, ~{key}.NAME"
        )
    options = [file.stem for place in places for file in (place / key).glob("*.yaml")]
    if options and not isinstance(value, (str, list, dict)):
        kind = "null" if value is None else f"of type {type(value).__name__}"
        hint = f"; {key}=none leaves it out" if "none" in options else nearest(str(value), options)
        return f"an option is a name, and this is {kind}: choose an option by name{hint}"
    return None
