"""Messages for what Hydra and OmegaConf refuse: what, where and the nearest name."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import yaml  # type: ignore[import-untyped]
from hydra.errors import OverrideParseException
from omegaconf import DictConfig, OmegaConf

from rlcomp.errors import nearest
from rlcomp.wiring.options import config_directory
from rlcomp.wiring.reader import unset_variable
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
    key = next((line.split()[-1] for line in text.splitlines() if "full_key:" in line), None)
    if unset := unset_variable(text):
        # Hydra's own keys that the config sets: hydra.run.dir is ${directory}.
        return f"{'directory' if str(key).startswith('hydra.') else key}: {unset}"
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    missing = re.search(r"Could not find '([^']+)'", text)
    if missing:
        group, _, option = missing.group(1).rpartition("/")
        known = nearest(option, _options(group, directories))
        return f"{group}={option}: there is no such option{known}"
    if key and "is not in struct" in text:
        parent, _, name = key.rpartition(".")
        new = new_name(name)
        if new is not None:
            return (
                f"{key} is not in the config: since 0.2 it is {parent + '.' if parent else ''}{new}"
            )
        if name in (beside := [*keys(parent)]):
            return (
                f"{key} is a choice of parts whose settings stand elsewhere; "
                f"rlcomp ... {key}=OPTION --cfg job shows where"
            )
        return f"{key} is not in the config{nearest(name, beside)}; a + before it adds a new key"
    noise = ("full_key:", "object_type=", "reference_", "See https", "Config search", "provider=")
    return "\n".join(dict.fromkeys(line for line in lines if not line.startswith(noise)))


def unreadable_yaml(error: Exception, directories: Sequence[str]) -> str:
    """Which of the user's own yamls cannot be read, and why.

    Args:
        error: what reading one of them ended with, in whatever words.
        directories: of the user's own configs.
    """
    for file in sorted(path for place in directories for path in Path(place).rglob("*.yaml")):
        try:
            OmegaConf.load(file)
        except (RecursionError, yaml.YAMLError, UnicodeDecodeError, OSError) as fault:
            told = "an alias (*name) stands for what it is a part of"
            told = told if isinstance(fault, RecursionError) else " ".join(str(fault).split())
            if type(fault) is type(error):
                return f"{file}: {told}"
    return f"a yaml cannot be read: {' '.join(str(error).split())}"


def _options(group: str, directories: Sequence[str]) -> list[str]:
    """The options of a group, of ours and of the user's config directories."""
    places = [config_directory(), *map(Path, directories)]
    return [file.stem for place in places for file in (place / group).glob("*.yaml")]


def keys_below(config: DictConfig, parent: str) -> list[str]:
    """The keys of a config below a path; groups too where that is the root."""
    node = OmegaConf.select(config, parent) if parent else config
    groups = [entry.name for entry in config_directory().iterdir() if entry.is_dir()]
    below = [str(key) for key in node] if isinstance(node, DictConfig) and node else []
    return below + (groups if not parent else [])
