"""Composition of the config of a command line, outside Hydra's app, and its choices."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from hydra import compose, initialize_config_dir
from hydra.core.utils import setup_globals
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from rlcomp.config.options import config_directory, usual_option
from rlcomp.config.overrides import only_overrides, with_base
from rlcomp.config.user_yaml import check_own_yamls
from rlcomp.errors import ConfigError


def compose_config(overrides: Sequence[str], config_dirs: Sequence[str] = ()) -> DictConfig:
    """Return the config of a command line.

    Args:
        overrides: as on the command line.
        config_dirs: directories of the user's own configs.

    Raises:
        ConfigError: a directory is missing, or a yaml of the user has a fault.
        HydraException, OmegaConfBaseException: an override is refused.
    """
    return _compose(overrides, config_dirs, with_hydra=False)


def compose_with_choices(
    overrides: Sequence[str], config_dirs: Sequence[str]
) -> tuple[DictConfig, dict[str, str]]:
    """Return the config of a command line, and the chosen option of every group."""
    config = _compose(overrides, config_dirs, with_hydra=True)
    choices = {str(group): str(option) for group, option in config.hydra.runtime.choices.items()}
    return config, choices


def _compose(
    overrides: Sequence[str], config_dirs: Sequence[str], *, with_hydra: bool
) -> DictConfig:
    setup_globals()
    for directory in config_dirs:
        if not Path(directory).is_dir():
            raise ConfigError(f"--config-dir is {directory}: there is no such directory")
    check_own_yamls(overrides, config_dirs)
    extra = [f"file://{Path(directory).resolve()}" for directory in config_dirs]
    words = [*with_base(overrides), *([f"hydra.searchpath=[{','.join(extra)}]"] if extra else [])]
    if not any(word.startswith("directory=") for word in overrides):
        words = ["directory=runs/...", *words]  # the running app sets it
    with initialize_config_dir(str(config_directory()), version_base="1.3", job_name="rlcomp"):
        return compose("config", overrides=words, return_hydra_config=with_hydra)


class CommandLine(NamedTuple):
    """The choices of a command line and their config.

    Attributes:
        words: the choices.
        config_dirs: directories of the user's own configs.
        config: the composed config.
        choices: the option of each group, also of the groups that recipes choose from.
    """

    words: list[str]
    config_dirs: Sequence[str]
    config: DictConfig
    choices: Mapping[str, str]

    def has(self, path: str) -> bool:
        """Return whether the config has a setting."""
        parent, _, name = path.rpartition(".")
        node = OmegaConf.select(self.config, parent) if parent else self.config
        return isinstance(node, DictConfig) and name in node

    def paths(self, name: str) -> list[str]:
        """Return the paths of all settings of this name in the config."""
        return sorted(_paths(self.config, name))

    def lacks(self, name: str) -> str | None:
        """Return a message that the config lacks a group or setting, with a choice that has it.

        Args:
            name: ``advantage``, ``loss@learner.losses.kl``, ``group_size``.

        Returns:
            None if the config has it, or if no choice has it.
        """
        present = name in self.choices if _is_group(name) else self.has(name)
        if present and _is_empty(OmegaConf.select(self.config, name)) and not _is_group(name):
            present = False
        options = [
            pair for pair in self._options_with(name) if pair[1] != self.choices.get(pair[0])
        ]
        groups = [group for group, _ in options if group in self.choices]
        if present or not options:
            return None
        if not groups:  # the groups of these options are missing themselves
            above = (
                (self.lacks(group), group, option) for group, option in options if group != name
            )
            reason = next((entry for entry in above if entry[0]), None)
            return reason and f"{reason[0]}, and {reason[1]}={reason[2]} has {name}"
        group = "recipe" if "recipe" in groups else groups[0]
        usual = usual_option(group)
        # The recipe that others start from, else the option with the plainest name.
        first, *more = sorted(
            {option for other, option in options if other == group},
            key=lambda option: (option != usual, len(option), option),
        )
        also = f" (or {', '.join(more[:2])})" if more and group != "recipe" else ""
        missing = name.partition("@")[2] or name
        return f"{group}={self.choices[group]} has no {missing}; {group}={first} has it{also}"

    def _options_with(self, name: str) -> Iterator[tuple[str, str]]:
        """Yield the options (group, name) whose yamls add a group or a setting to the config."""
        escaped = re.escape(name)
        as_part = re.compile(rf"^ *- /(\w+@)?{escaped}(@{escaped})?: ", re.MULTILINE)
        parts = [*self._matching_options(as_part)]
        values = self._matching_options(re.compile(rf"^{escaped}:", re.MULTILINE))
        # Other recipes set values of recipe=grpo in their own way: they are no remedy.
        yield from parts or (option for option in values if option == ("recipe", "grpo"))

    def _matching_options(self, pattern: re.Pattern[str]) -> Iterator[tuple[str, str]]:
        """Yield the options (group, name) for the whole config whose yamls match a pattern."""
        for directory in (config_directory(), *map(Path, self.config_dirs)):
            for file in sorted(directory.glob("*/**/*.yaml")):
                text = file.read_text(encoding="utf-8", errors="replace")
                group = file.parent.relative_to(directory).as_posix()
                is_whole = group not in ("experiment", "suite") and "# @package _global_" in text
                if is_whole and pattern.search(text):
                    yield group, file.stem


def _paths(node: DictConfig, name: str, prefix: str = "") -> Iterator[str]:
    for key, value in node.items_ex(resolve=False):
        if key == name and not isinstance(value, DictConfig):
            yield f"{prefix}{key!s}"
        if isinstance(value, DictConfig) and not (value._is_none() or value._is_interpolation()):
            yield from _paths(value, name, f"{prefix}{key!s}.")


def _is_empty(node: object) -> bool:
    """Return whether a node is an empty slot."""
    return isinstance(node, DictConfig) and str(node.get("_target_")).endswith(".Nothing")


def _is_group(name: str) -> bool:
    return (config_directory() / name.partition("@")[0]).is_dir()


def command_line(words: Sequence[str], config_dirs: Sequence[str]) -> CommandLine:
    """Compose the choices of a command line; drop the last choices until the others compose.

    A choice is an override without a dot in its key, and without a comma (``seed=1``, too). Missing
    directories are left out.

    Args:
        words: words of the command line.
        config_dirs: directories of the user's own configs.
    """
    overrides = only_overrides(words)
    choices = [word for word in overrides if "." not in word.split("=")[0] and "," not in word]
    directories = [directory for directory in config_dirs if Path(directory).is_dir()]
    while True:
        try:
            return CommandLine(choices, directories, *compose_with_choices(choices, directories))
        except (HydraException, OmegaConfBaseException, ValueError):
            if not choices:
                raise
            choices = choices[:-1]
