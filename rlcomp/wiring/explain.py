"""Messages for what Hydra and OmegaConf refuse: what, where and the nearest name."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from hydra.errors import OverrideParseException
from omegaconf import DictConfig, OmegaConf

from rlcomp.errors import nearest
from rlcomp.wiring.options import config_directory
from rlcomp.wiring.renamed import new_name


def explain_composition(
    error: Exception, directories: Sequence[str], keys: Callable[[str], Iterable[str]]
) -> str:
    """One message for an error of Hydra or OmegaConf.

    Args:
        error: what was raised.
        directories: of the user's own configs.
        keys: gives the keys of the config below a path.
    """
    if isinstance(error, OverrideParseException):
        told = error.message.splitlines()[0]
        return f"{error.override}: cannot be read ({told}); quote the value: 'key=\"value\"'"
    text = str(error) if error.__cause__ is None else f"{error}\n{error.__cause__}"
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    missing = re.search(r"Could not find '([^']+)'", text)
    if missing:
        group, _, option = missing.group(1).rpartition("/")
        known = nearest(option, _options(group, directories))
        return f"{group}={option}: there is no such option{known}"
    key = next((line.split()[-1] for line in lines if line.startswith("full_key:")), None)
    if key and "is not in struct" in text:
        parent, _, name = key.rpartition(".")
        new = new_name(name)
        if new is not None:
            return (
                f"{key} is not in the config: since 0.2 it is {parent + '.' if parent else ''}{new}"
            )
        return (
            f"{key} is not in the config{nearest(name, keys(parent))}; a + before it adds a new key"
        )
    noise = ("full_key:", "object_type=", "reference_", "See https")
    return "\n".join(line for line in lines if not line.startswith(noise))


def _options(group: str, directories: Sequence[str]) -> list[str]:
    """The options of a group, of ours and of the user's config directories."""
    places = [config_directory(), *map(Path, directories)]
    return [file.stem for place in places for file in (place / group).glob("*.yaml")]


def keys_below(config: DictConfig, parent: str) -> list[str]:
    """The keys of a config below a path; groups too where that is the root."""
    node = OmegaConf.select(config, parent, throw_on_missing=False) if parent else config
    groups = [entry.name for entry in config_directory().iterdir() if entry.is_dir()]
    below = [str(key) for key in node] if isinstance(node, DictConfig) and node else []
    return below + (groups if not parent else [])
