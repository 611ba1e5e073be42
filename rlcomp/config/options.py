"""The shipped configs: their directory and the options of each group."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import cache
from pathlib import Path

from rlcomp.config.declarations import Declaration, declaration_of

# Groups that no sweep compares.
NO_SWEEP = ("tracker",)
# Groups whose options can be combined.
COMBINED = ("experiment", "measure", "objective", "suite", "loss/weight")

# In a yaml: a target; a setting that is true; an entry of a defaults list with another path.
_TARGET = re.compile(r"^\s*_target_:\s*(\S+)\s*$", re.MULTILINE)
_TRUE = re.compile(r"^\s*(\w+): true$", re.MULTILINE)
_PACKAGED = re.compile(r"^\s*- /([\w/]+)@(\w+): ", re.MULTILINE)


def config_directory() -> Path:
    """Return the directory of configs: in the wheel, or beside the packages in a checkout."""
    inside = Path(__file__).parents[1] / "conf"
    return inside if inside.is_dir() else Path(__file__).parents[2] / "conf"


def options_of(group: str, places: Iterable[Path]) -> dict[str, Path]:
    """Return the yamls of a group's options, by name.

    Args:
        group: name of the group.
        places: directories of configs; options of later ones override those of earlier ones.
    """
    return {file.stem: file for place in places for file in sorted((place / group).glob("*.yaml"))}


def recipes_with(name: str, reader: str = "", target: str = "") -> list[str]:
    """Return the recipes that have a node, the shortest names first.

    Args:
        name: name of the node.
        reader: the node that refers to it.
        target: class of the reader; recipes in which the reader has this class come first.
    """
    line = re.compile(rf"^ *- /(\w+@)?{re.escape(name)}: ", re.MULTILINE)
    files = (config_directory() / "recipe").glob("*.yaml")
    texts = {file.stem: file.read_text(encoding="utf-8") for file in files}
    recipes = [recipe for recipe, text in texts.items() if line.search(text)]
    same = "|".join(map(re.escape, _options_of_target(target))) or "(?!)"  # matches nothing
    same_reader = re.compile(rf"^ *- /(\w+@)?{re.escape(reader)}: ({same})$", re.MULTILINE)
    return sorted(recipes, key=lambda r: (not same_reader.search(texts[r]), len(r), r))


def _options_of_target(target: str) -> list[str]:
    """Return the names of the options of a class."""
    files = sorted(config_directory().glob("*/*.yaml"))
    return [f.stem for f in files if target in _TARGET.findall(f.read_text(encoding="utf-8"))]


def groups_with(setting: str) -> list[str]:
    """Return the groups with an option that has a setting of this name."""
    line = re.compile(rf"^{re.escape(setting)}:", re.MULTILINE)
    files = sorted(config_directory().glob("*/*.yaml"))
    groups = [
        file.parent.name
        for file in files
        if line.search(text := file.read_text(encoding="utf-8")) and "_global_" not in text
    ]
    return [*dict.fromkeys(groups)]


def options_writing(key: str, available: Collection[str] | None = None) -> list[str]:
    """Return the choices (``group=option``) whose part writes a key.

    Args:
        key: key of the batch.
        available: the keys that the part may read; None: any keys.
    """

    def suits(part: Declaration, settings: Mapping[str, object]) -> bool:
        # A part that starts a new batch writes an optional key only to pass it on.
        written = key in part.written(settings) and not (part.fresh and key in part.optional)
        return written and (available is None or {*part.reads} <= {*available})

    return _options(suits, "**")


def options_reading(key: str, group: str) -> list[str]:
    """Return the choices of a group whose part reads a key, perhaps as an optional one."""
    return _options(lambda part, _: key in (*part.reads, *part.optional), group)


# The choices of a group ("**": of every group) in whose yaml a class suits, with the true settings.
def _options(suits: Callable[[Declaration, Mapping[str, object]], bool], group: str) -> list[str]:
    choices = []
    for file in sorted(config_directory().glob(f"{group}/*.yaml")):
        text = file.read_text(encoding="utf-8")
        settings = dict.fromkeys(_TRUE.findall(text), True)
        if any(suits(declaration_of(target), settings) for target in _TARGET.findall(text)):
            name = file.parent.relative_to(config_directory()).as_posix()
            choices.append(f"{with_path(name)}={file.stem}")
    return choices


def with_path(group: str) -> str:
    """Return a group as recipe=grpo names it: ``collector`` as ``collector@rollout``."""
    recipe = (config_directory() / "recipe" / "grpo.yaml").read_text(encoding="utf-8")
    return f"{group}@{dict(_PACKAGED.findall(recipe))[group]}" if f"/{group}@" in recipe else group


def choice_keys(group: str) -> list[str]:
    """Return the keys by which configs choose options of a group most often, at most two.

    Without any, return the key that adds the group: ``+group``.

    Examples:
        >>> choice_keys("filter"), choice_keys("optimizer"), choice_keys("objective")
        (['filter', 'filter@varied'], ['optimizer@learner.optimizer'], ['+objective'])
    """
    entry = re.compile(rf"^ *- (?:override )?/{group}(@[\w.]+)?: ", re.MULTILINE)
    is_default = "/" in group or f"- {group}: " in _text("config.yaml")
    counts = Counter({group: int(is_default)})
    for file in sorted(config_directory().glob("*/**/*.yaml")):
        text = file.read_text(encoding="utf-8")
        inside = "" if "# @package _global_" in text else f"{file.parent.name}."
        paths = (f"@{inside}{path[1:]}" if path else "" for path in entry.findall(text))
        counts.update(f"{group}{path}" for path in paths)
    return [name for name, times in counts.most_common(2) if times] or [f"+{group}"]


def _text(name: str) -> str:
    return (config_directory() / name).read_text(encoding="utf-8")


def usual_option(group: str) -> str | None:
    """Return the option of a group that a run has by default.

    Examples:
        >>> usual_option("advantage"), usual_option("collector@rollout"), usual_option("judge")
        ('group_mean_std', 'group', None)
    """
    for name in ("config.yaml", "recipe/grpo.yaml", "recipe/sft.yaml"):
        entry = rf"^  - /?{re.escape(group)}: (\w+)$"
        if match := re.search(entry, _text(name), re.MULTILINE):
            return match[1]
    return None


def count_choices(group: str, option: str) -> int:
    """Count the shipped yamls that choose an option.

    Examples:
        >>> count_choices("reference", "frozen") > count_choices("reference", "adapter_off")
        True
    """
    entry = re.compile(rf"^ *- (override )?/{re.escape(group)}: {re.escape(option)}$", re.MULTILINE)
    return len(entry.findall(_all_options()))


@cache
def _all_options() -> str:
    files = sorted(config_directory().glob("*/*.yaml"))
    return "\n".join(file.read_text(encoding="utf-8") for file in files)
