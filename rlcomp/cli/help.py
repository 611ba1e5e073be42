"""``rlcomp --help`` and ``rlcomp help [GROUP[=OPTION]]``: options, by the comments in their yamls.

Hydra's own help composes the config once for each group, which takes seconds.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import takewhile
from pathlib import Path
from shutil import get_terminal_size
from typing import NamedTuple

from rlcomp.cli.escape import printable
from rlcomp.config.declarations import read_declaration
from rlcomp.config.options import choice_keys
from rlcomp.errors import ConfigError, UserError, nearest

_HEAD = "rlcomp: reinforcement learning out of named parts."
_PARTS = "Parts, chosen by group=option:"
_PATCHES = "Patches, chosen by group=option as well; each sets several places of the config:"
_WORLDS = "of toy and benchmark worlds:"
_FOOT = """\
rlcomp recipe=grpo seed=1                        one run
rlcomp -m recipe=grpo,shuffled_rewards seed=0,1  a sweep
rlcomp help                                      every option, with what its yaml says
rlcomp help advantage                            those of a group
rlcomp help advantage=gdpo                       one: its settings, its formula, its source
rlcomp-describe recipe=grpo                      what a recipe is made of
rlcomp-report runs/SWEEP                         tables and curves of finished runs
rlcomp-audit reward=numeric task=addition        wrong answers that a verifier accepts
rlcomp-evaluate MODEL suite=gsm8k data=FOLDER    models and runs on benchmarks

Any value can be set: learner.optimizer.lr=3e-4. --cfg job prints the config,
-m sweeps, -cd DIR adds your own configs, -sc install=bash completes words."""


class Option(NamedTuple):
    """A yaml file: its first comment, whether it patches the whole config, and its settings."""

    comment: list[str]
    patch: bool
    body: str

    @property
    def description(self) -> list[str]:
        """The comment, or the target if there is none."""
        return self.comment or self.targets[:1]

    @property
    def targets(self) -> list[str]:
        """The ``_target_`` of the option and of its inner parts."""
        return re.findall(r"^ *_target_: *(\S+)$", self.body, re.MULTILINE)


def read_option(file: Path) -> Option:
    """Read the option in a yaml file."""
    lines = file.read_text(encoding="utf-8", errors="replace").splitlines(keepends=True)
    head = list(takewhile(lambda line: line.startswith("#"), lines))
    words = [line.lstrip("#").strip() for line in head]
    comment = [line for line in words if not line.startswith("@package")]
    return Option(comment, "@package _global_" in words, "".join(lines[len(head) :]))


def files_of(directories: Iterable[Path]) -> dict[str, dict[str, Path]]:
    """Return the yamls by group and option; later directories override earlier ones."""
    groups: dict[str, dict[str, Path]] = {}
    for directory in directories:
        for file in directory.glob("*/**/*.yaml"):
            group = file.parent.relative_to(directory).as_posix()
            groups.setdefault(group, {})[file.stem] = file
    return {group: dict(sorted(groups[group].items())) for group in sorted(groups)}


def is_patch(files: Collection[Path]) -> bool:
    """Return whether a group is one of patches: most of its options patch the whole config."""
    return sum(read_option(file).patch for file in files) * 2 > len(files)


def help_text(directories: Iterable[Path]) -> str:
    """Return the names of all options in config directories, one line per group."""
    files = files_of(directories)
    lines = {group: _names(group, options) for group, options in files.items()}
    return "\n".join([_HEAD, *_parts_and_patches(files, lines), "", _FOOT])


def print_help(words: Sequence[str], directories: Iterable[Path]) -> None:
    """Print the help on words; in a terminal, lines are cut at its width."""
    width = get_terminal_size().columns if sys.stdout.isatty() else sys.maxsize
    print(printable(help_on(words, directories, width)))


def help_on(words: Sequence[str], directories: Iterable[Path], width: int) -> str:
    """Return help on all options, on groups, or on one option in full.

    Args:
        words: groups (``advantage``) and options (``advantage=gdpo``); none for everything.
        directories: config directories; the first is rlcomp's own.
        width: largest width of a line in the list of everything.

    Raises:
        UserError: there is no such group or option; the message names the nearest.
    """
    directories = [*directories]
    files = files_of(directories)
    if words:
        user_directories = [str(directory) for directory in directories[1:]]
        return "\n\n".join(_help_on_word(word, files, user_directories) for word in words)
    lines = {group: _entries(group, options, width) for group, options in files.items()}
    return "\n".join([_HEAD, *_parts_and_patches(files, lines), "", _FOOT])


def _parts_and_patches(
    files: Mapping[str, Mapping[str, Path]], lines: Mapping[str, list[str]]
) -> list[str]:
    """Return the lines of groups; groups of parts come before groups of patches."""
    patches = {group for group, options in files.items() if is_patch(options.values())}
    parts = [line for group in lines if group not in patches for line in lines[group]]
    return [
        "",
        _PARTS,
        *parts,
        "",
        _PATCHES,
        *(line for group in sorted(patches) for line in lines[group]),
    ]


def world_options(options: Mapping[str, Path]) -> dict[str, Path]:
    """Return the options of a group that build a part of a toy or benchmark world."""
    return {name: options[name] for name in options if _is_of_world(name, options)}


def _is_of_world(name: str, options: Mapping[str, Path]) -> bool:
    """Check the target of an option, or of the option that it starts from."""
    option = read_option(options[name])
    if option.patch or option.targets:
        return not option.patch and option.targets[0].startswith("components.worlds.")
    bases = set(re.findall(r"^  - (\w+)$", option.body, re.MULTILINE)) - {name}
    return any(_is_of_world(base, options) for base in bases & {*options})


def _names(group: str, options: Mapping[str, Path]) -> list[str]:
    """Return the names of a group in one line, and names of worlds in a second."""
    worlds = world_options(options)
    kernel = [name for name in options if name not in worlds]
    lines = [f"{group}: {', '.join(kernel)}"] if kernel else []
    return [*lines, *([f"{group}, {_WORLDS} {', '.join(worlds)}"] if worlds else [])]


def _entries(group: str, options: Mapping[str, Path], width: int) -> list[str]:
    """Return a line for each option of a group; options of worlds have a heading of their own."""
    worlds = world_options(options)
    kernel = {name: file for name, file in options.items() if name not in worlds}
    parts = ((f"{group}:", kernel), (f"{group}, {_WORLDS}", worlds))
    return [line for head, part in parts if part for line in ("", head, *_table(part, width))]


def _table(options: Mapping[str, Path], width: int) -> list[str]:
    column = max(map(len, options))
    lines = [
        f"  {name:{column}}  {' '.join(read_option(file).description)}"
        for name, file in options.items()
    ]
    return [line if len(line) <= width else f"{line[: width - 1]}…" for line in lines]


def _help_on_word(
    word: str, files: Mapping[str, Mapping[str, Path]], user_directories: Sequence[str]
) -> str:
    group, _, name = word.partition("=")
    group = group.lstrip("+").partition("@")[0]
    if group not in files:
        raise UserError(f"help {word}: {_unknown(group, files)}")
    if not name:
        return "\n".join(_group_help(group, files[group]))
    if name not in files[group]:
        from rlcomp.advice.user_option import misplaced_yaml

        if moved := misplaced_yaml(group, name, user_directories):
            raise UserError(f"help {word}: {moved}")
        raise UserError(f"help {word}: {group} has no option '{name}'{nearest(name, files[group])}")
    return "\n".join(_option_help(group, name, files[group]))


def _unknown(name: str, files: Mapping[str, Mapping[str, Path]]) -> str:
    """Return the remedy for a name that is not a group."""
    owners = [group for group, options in files.items() if name in options]
    if owners:
        commands = ", ".join(
            f"rlcomp help {group}={name}" for group in sorted(owners, key=_recipes_first)[:5]
        )
        return f"it is an option: {commands}"
    if name == "phases":
        return "phases are no group; rlcomp-describe recipe=NAME shows those of a recipe"
    from rlcomp.advice.foreign_options import our_name

    if here := our_name(name):
        return f"there is no such group; here it is {here}"
    return f"there is no such group{nearest(name, files)}; rlcomp --cfg job prints the settings"


def _recipes_first(group: str) -> tuple[bool, str]:
    """Return a sort key that puts recipes before parts."""
    return group != "recipe", group


def _group_help(group: str, options: Mapping[str, Path]) -> list[str]:
    lines = [f"{group}, chosen by {' or '.join(f'{name}=NAME' for name in choice_keys(group))}:"]
    worlds = world_options(options)
    for name in sorted(options, key=lambda name: name in worlds):
        if name in worlds and _WORLDS not in lines:
            lines += ["", _WORLDS]
        comment = read_option(options[name]).description
        lines += ["", f"  {name}", *(f"      {line}" for line in comment)]
    return [*lines, "", f"rlcomp help {group}=NAME shows the settings of one."]


def _option_help(group: str, name: str, options: Mapping[str, Path]) -> list[str]:
    """Return comment and settings of an option and of its base, and the docstring of its target."""
    option = read_option(options[name])
    lines = [f"{group}={name}", "", *option.comment, "", option.body.rstrip()]
    others = {other: file for other, file in options.items() if other != name}
    for base in re.findall(r"^  - (\w+)$", option.body, re.MULTILINE):
        if base in others:
            lines += ["", "which starts from", "", *_option_help(group, base, others)]
    if option.patch:
        chosen = f"{choice_keys(group)[0]}={name}"
        return [*lines, "", f"rlcomp-describe {chosen} shows the stages, and what they read."]
    for target in option.targets[:1]:
        lines += ["", *_docstring(target)]
    return lines


def _docstring(target: str) -> list[str]:
    """Return the docstring of a target."""
    try:
        return [f"{target}:", "", read_declaration(target).doc]
    except ConfigError as error:
        return [f"{target}: {error}"]
