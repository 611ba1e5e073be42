"""Choices of a command line: the settings of its config, and the options with other settings."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from rlcomp.config.compose import compose_with_choices
from rlcomp.config.options import config_directory, usual_option

_NOT_ASKED = ("experiment", "suite")


class CommandLine(NamedTuple):
    """The config of a command line's choices.

    Attributes:
        words: the choices.
        config_dirs: directories of the user's own configs.
        config: what they compose.
        choices: the option of each group, those that recipes choose among them.
    """

    words: list[str]
    config_dirs: Sequence[str]
    config: DictConfig
    choices: Mapping[str, str]

    def has(self, path: str) -> bool:
        """Return whether its config has a setting."""
        parent, _, name = path.rpartition(".")
        node = OmegaConf.select(self.config, parent) if parent else self.config
        return isinstance(node, DictConfig) and name in node

    def places(self, name: str) -> list[str]:
        """Return the paths of all settings of this name in its config."""
        return sorted(_paths(self.config, name))

    def lacks(self, name: str) -> str | None:
        """Why its config has no such group or setting, and which choice has it; None: none has.

        Args:
            name: ``advantage``, ``loss@learner.losses.kl``, ``group_size``.
        """
        there = name in self.choices if _is_group(name) else self.has(name)
        if there and _is_empty(OmegaConf.select(self.config, name)) and not _is_group(name):
            there = False
        having = [one for one in self._having(name) if one[1] != self.choices.get(one[0])]
        known = [group for group, _ in having if group in self.choices]
        if there or not having:
            return None
        if not known:  # what has it is lacking itself
            above = ((self.lacks(group), group, one) for group, one in having if group != name)
            reason = next((one for one in above if one[0]), None)
            return reason and f"{reason[0]}, and {reason[1]}={reason[2]} has {name}"
        group = "recipe" if "recipe" in known else known[0]
        usual = usual_option(group)
        # The recipe that others start from, else one that is called plainly.
        first, *more = sorted(
            {option for other, option in having if other == group},
            key=lambda option: (option != usual, len(option), option),
        )
        also = f" (or {', '.join(more[:2])})" if more and group != "recipe" else ""
        called = name.partition("@")[2] or name
        return f"{group}={self.choices[group]} has no {called}; {group}={first} has it{also}"

    def _having(self, name: str) -> Iterator[tuple[str, str]]:
        """Yield the options (group, name) whose yamls bring a group or a setting along."""
        named = re.escape(name)
        as_part = re.compile(rf"^ *- /(\w+@)?{named}(@{named})?: ", re.MULTILINE)
        parts = [*self._matching(as_part)]
        values = self._matching(re.compile(rf"^{named}:", re.MULTILINE))
        # Others set in their own way what the first of the recipes has.
        yield from parts or (one for one in values if one == ("recipe", "grpo"))

    def _matching(self, lines: re.Pattern[str]) -> Iterator[tuple[str, str]]:
        """Yield the options (group, name) that set places of the whole config in such a line."""
        for place in (config_directory(), *map(Path, self.config_dirs)):
            for file in sorted(place.glob("*/**/*.yaml")):
                text = file.read_text(encoding="utf-8", errors="replace")
                group = file.parent.relative_to(place).as_posix()
                if group not in _NOT_ASKED and "# @package _global_" in text and lines.search(text):
                    yield group, file.stem


def _paths(node: DictConfig, name: str, above: str = "") -> Iterator[str]:
    for key, value in node.items_ex(resolve=False):
        if key == name and not isinstance(value, DictConfig):
            yield f"{above}{key!s}"
        if isinstance(value, DictConfig) and not (value._is_none() or value._is_interpolation()):
            yield from _paths(value, name, f"{above}{key!s}.")


def _is_empty(node: object) -> bool:
    """Return whether a node is an empty slot."""
    return isinstance(node, DictConfig) and str(node.get("_target_")).endswith(".Nothing")


def _is_group(name: str) -> bool:
    return (config_directory() / name.partition("@")[0]).is_dir()


def line_of(words: Sequence[str], config_dirs: Sequence[str]) -> CommandLine:
    """Return the choices of a command line, as many of the first as compose.

    Args:
        words: of the command line.
        config_dirs: directories of the user's own configs.
    """
    sound = [word for word in words if "=" in word and not word.startswith("-")]
    chosen = [word for word in sound if "." not in word.split("=")[0] and "," not in word]
    there = [place for place in config_dirs if Path(place).is_dir()]
    while True:
        try:
            return CommandLine(chosen, there, *compose_with_choices(chosen, there))
        except (HydraException, OmegaConfBaseException, ValueError):
            if not chosen:
                raise
            chosen = chosen[:-1]
