"""The shipped configs: their directory and the options of each group."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import cache
from pathlib import Path

from rlcomp.config.declare import Declaration, declaration_of

# What a run has one of, and nobody compares.
NO_SWEEP = ("tracker",)
# Groups of whose options any number is put together.
TOGETHER = ("experiment", "measure", "objective", "suite", "loss/weight")

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
        group: ``advantage``.
        places: directories of configs; those of a later one stand in front of an earlier one's.
    """
    return {file.stem: file for place in places for file in sorted((place / group).glob("*.yaml"))}


def recipes_with(name: str, asking: str = "", target: str = "") -> list[str]:
    """Return the recipes that bring a node along, the plainest first.

    Args:
        name: of the node.
        asking: the node that asks for it.
        target: its class; a recipe where it has the same one stands in front of all others.
    """
    line = re.compile(rf"^ *- /(\w+@)?{re.escape(name)}: ", re.MULTILINE)
    files = (config_directory() / "recipe").glob("*.yaml")
    texts = {file.stem: file.read_text(encoding="utf-8") for file in files}
    recipes = [recipe for recipe, text in texts.items() if line.search(text)]
    same = "|".join(map(re.escape, _options_of_target(target))) or "(?!)"
    asks = re.compile(rf"^ *- /(\w+@)?{re.escape(asking)}: ({same})$", re.MULTILINE)
    return sorted(recipes, key=lambda one: (not asks.search(texts[one]), len(one), one))


def _options_of_target(target: str) -> list[str]:
    """Return the names of the options of a class."""
    files = sorted(config_directory().glob("*/*.yaml"))
    return [f.stem for f in files if target in _TARGET.findall(f.read_text(encoding="utf-8"))]


def having(setting: str) -> list[str]:
    """Return the groups with an option that has a setting of this name."""
    line = re.compile(rf"^{re.escape(setting)}:", re.MULTILINE)
    files = sorted(config_directory().glob("*/*.yaml"))
    groups = [
        file.parent.name
        for file in files
        if line.search(text := file.read_text(encoding="utf-8")) and "_global_" not in text
    ]
    return [*dict.fromkeys(groups)]


def options_writing(key: str, given: Collection[str] | None = None) -> list[str]:
    """Return the choices (``group=option``) whose part writes a key.

    Args:
        key: of the batch.
        given: the keys that are there: a part that lacks another is no choice; None: any part is.
    """

    def suits(part: Declaration, settings: Mapping[str, object]) -> bool:
        written = key in part.written(settings) and not (part.fresh and key in part.optional)
        return written and (given is None or {*part.reads} <= {*given})

    return _options(suits, "**")


def options_reading(key: str, group: str) -> list[str]:
    """Return the choices of a group whose part reads a key, be it only an optional one."""
    return _options(lambda part, _: key in (*part.reads, *part.optional), group)


def _options(suits: Callable[[Declaration, Mapping[str, object]], bool], group: str) -> list[str]:
    choices = []
    for file in sorted(config_directory().glob(f"{group}/*.yaml")):
        text = file.read_text(encoding="utf-8")
        settings = dict.fromkeys(_TRUE.findall(text), True)
        if any(suits(declaration_of(target), settings) for target in _TARGET.findall(text)):
            inside = file.parent.relative_to(config_directory()).as_posix()
            choices.append(f"{placed(inside)}={file.stem}")
    return choices


def placed(group: str) -> str:
    """Return a group as the command line names it: ``collector`` as ``collector@rollout``."""
    recipe = (config_directory() / "recipe" / "grpo.yaml").read_text(encoding="utf-8")
    return f"{group}@{dict(_PACKAGED.findall(recipe))[group]}" if f"/{group}@" in recipe else group


def chosen_as(group: str) -> list[str]:
    """Return the two keys by which configs choose options of a group most often.

    Examples:
        >>> chosen_as("filter"), chosen_as("optimizer"), chosen_as("objective")
        (['filter', 'filter@varied'], ['optimizer@learner.optimizer'], ['+objective'])
    """
    entry = re.compile(rf"^ *- (?:override )?/{group}(@[\w.]+)?: ", re.MULTILINE)
    counts = Counter({group: "/" in group or f"- {group}: " in _text("config.yaml")})
    for file in sorted(config_directory().glob("*/**/*.yaml")):
        text = file.read_text(encoding="utf-8")
        inside = "" if "# @package _global_" in text else f"{file.parent.name}."
        places = (f"@{inside}{place[1:]}" if place else "" for place in entry.findall(text))
        counts.update(f"{group}{place}" for place in places)
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


def chosen_by(group: str, option: str) -> int:
    """Count our recipes and patches that choose an option: a popular one needs little else.

    Examples:
        >>> chosen_by("reference", "frozen") > chosen_by("reference", "adapter_off")
        True
    """
    entry = re.compile(rf"^ *- (override )?/{re.escape(group)}: {re.escape(option)}$", re.MULTILINE)
    return len(entry.findall(_all_options()))


@cache
def _all_options() -> str:
    files = sorted(config_directory().glob("*/*.yaml"))
    return "\n".join(file.read_text(encoding="utf-8") for file in files)
