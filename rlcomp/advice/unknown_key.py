"""Messages on settings and groups that a config does not have."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable

from omegaconf import DictConfig, OmegaConf

from rlcomp.advice.foreign_options import known_key, near_foreign_name, our_name
from rlcomp.advice.translation import equivalent_setting, fit, in_our_words, translate
from rlcomp.config.compose import CommandLine
from rlcomp.config.migrations import new_name
from rlcomp.config.options import config_directory, groups_with
from rlcomp.errors import nearest

# Maximum numbers of options, and of paths of a setting, in a message.
_MAX_OPTIONS, _MAX_PATHS = 5, 3
# Settings that a phase may inherit.
_PHASE_SETTINGS = ("steps", "stages", "every", "without", "insert")
# Nodes of other libraries' configs; no name here is near to these.
_FOREIGN = ("trainer", "data", "algorithm", "actor_rollout_ref", "critic", "actor", "algo")


def unknown_key(
    key: str, text: str, keys: Callable[[str], Iterable[str]], line: CommandLine | None
) -> str:
    """Return a message that the config does not have a setting.

    Args:
        key: path of the setting, up to the first missing name.
        text: text of the error.
        keys: returns the keys of the config below a path.
        line: the choices of the command line; None: unknown.
    """
    parent, _, name = key.rpartition(".")
    new = new_name(name)
    if new is not None:
        return f"{key} is not in the config: since 0.2 it is {parent + '.' if parent else ''}{new}"
    if message := _inherited(key, text, keys(parent)) or _equivalent_setting(
        key, text, keys(""), line
    ):
        return message
    if line and (message := _null_phase(key, line)):
        return message
    if line and OmegaConf.select(line.config, parent) == {}:
        setting, value = _typed_setting(key, text)
        return (
            f"{key} is not in the config; {parent} is empty, and a + adds to it: "
            f"+{setting}={value or '...'}"
        )
    if name in (siblings := [*keys(parent)]):
        return (
            f"{key} is a group of options, whose settings have other paths; "
            f"rlcomp ... {key}=OPTION --cfg job shows them"
        )
    return _unknown_setting(key, text, siblings, line)


def _inherited(key: str, text: str, siblings: Iterable[str]) -> str | None:
    """Return a message that a phase inherits a setting from another phase."""
    parent, _, name = key.rpartition(".")
    if not parent.startswith("phases.") or name not in _PHASE_SETTINGS or "like" not in siblings:
        return None
    setting, value = _typed_setting(key, text)
    return (
        f"{key} is not in the config, but inherited from the phase that {parent}.like names; set "
        f"it here by +{setting}={value or '...'}"
    )


def _null_phase(key: str, line: CommandLine) -> str | None:
    """Return a message that a choice drops the phase of a setting (``phases.online: null``)."""
    group, _, name = key.rpartition(".")[0].partition(".")
    phases = OmegaConf.select(line.config, "phases")
    if group != "phases" or not phases or name not in phases or phases[name] is not None:
        return None
    choices = [
        f"{choice}={option}"
        for choice, option in line.choices.items()
        if _drops(choice, option, name)
    ]
    by = f"by {' and '.join(choices)}, " if choices else ""
    return (
        f"{key} is not in the config: {by}phases.{name} is null, so that there is no such phase; "
        f"leave {key} out{', or choose another option' if choices else ''}"
    )


def _drops(choice: str, option: object, phase: str) -> bool:
    """Return whether the yaml of an option drops a phase."""
    file = config_directory() / choice.partition("@")[0] / f"{option}.yaml"
    phases = OmegaConf.select(OmegaConf.load(file), "phases") if file.is_file() else None
    return isinstance(phases, DictConfig) and phase in phases and phases[phase] is None


def _unknown_setting(key: str, text: str, siblings: list[str], line: CommandLine | None) -> str:
    """Return a message on an unknown setting."""
    (parent, _, name), group = key.rpartition("."), key.split(".")[0]
    if options := _options_with(key, line):
        more = ", …" if len(options) > _MAX_OPTIONS else ""
        shown = ", ".join(options[:_MAX_OPTIONS])
        return f"{key} is not in the config; it is a setting of {shown}{more}"
    if parent and not siblings and (config_directory() / group).is_dir():
        return (
            f"{key} is not in the config: the chosen {group} has no settings; choose another "
            f"{group}=OPTION (rlcomp help {group})"
        )
    if key in _FOREIGN:
        return (
            f"{_typed_setting(key, text)[0]} is not in the config, and rlcomp has no known "
            "equivalent; leave it out (rlcomp --help lists the options)"
        )
    if parent and "_" in name and (here := our_name(name)):  # a single word is too ambiguous
        value = _typed_setting(key, text)[1]
        message = in_our_words(name, value) if value is not None else here
        return f"{key} is not in the config; {_translation(name, value or '', str(message), line)}"
    known = f"{key} is not in the config{_suggestion(name, siblings)}"
    if group == "phases" and parent:
        where = f"phases.{next(iter(siblings), 'rl')}" if parent == "phases" else parent
        return f"{known}; phases are counted in steps: {where}.steps=..."
    others = line if "did you mean" not in known else None
    message = _as_option(key) or _in_other_part(name, siblings, line) or _other_paths(name, others)
    if message:
        return f"{key} is not in the config; {message}"
    # A part takes only the arguments that it declares.
    if siblings and (config_directory() / group).is_dir():
        missing = _missing_setting(parent, siblings, _typed_setting(key, text)[1], line)
        similar = missing or _similar_setting(name, group)
        return known if "did you mean" in known else f"{known}; {similar}"
    return f"{known}; a + before it adds a new key"


def _as_option(name: str) -> str | None:
    """Return the choice of an option that is written as a setting; None unless one group has it."""
    files = [*config_directory().glob(f"*/{name}.yaml")] if re.fullmatch(r"\w+", name) else []
    return f"it is an option, {files[0].parent.name}={name}" if len(files) == 1 else None


def _in_other_part(name: str, siblings: list[str], line: CommandLine | None) -> str | None:
    """Return the only other part with a setting of this name; None if none or several have it.

    None also if the part itself has a setting of a similar name.
    """
    groups = groups_with(name)
    if any(setting.startswith(name) for setting in siblings):
        return None
    if line is None or len(groups) != 1 or difflib.get_close_matches(name, siblings, cutoff=0.75):
        return None
    path = f"{groups[0]}.{name}"
    lacks = line.lacks(groups[0])
    return f"here it is {path}" + (f", and {lacks}" if lacks else "")


def _other_paths(name: str, line: CommandLine | None) -> str | None:
    """Return the few other paths of a setting of this name; None if there are many."""
    paths = line.paths(name) if line else []
    return f"here it is {' or '.join(paths)}" if 0 < len(paths) <= _MAX_PATHS else None


def _missing_setting(
    parent: str, siblings: list[str], value: str | None, line: CommandLine | None
) -> str | None:
    """Return the only setting of a part that is still missing (``???``), with the value."""
    node = OmegaConf.select(line.config, parent) if line else None
    if not isinstance(node, DictConfig):
        return None
    missing = [setting for setting in siblings if OmegaConf.is_missing(node, setting)]
    if len(missing) != 1:
        return None
    path = f"{parent}.{missing[0]}"
    return f"{path} has to be set, {path}={value or '...'}"


def _similar_setting(name: str, group: str) -> str:
    """Return a setting similar to one that a group lacks, there or elsewhere."""
    if near := near_foreign_name(name, group):
        return f"a similar setting is {near}"
    here = our_name(name)
    return f"elsewhere {name} is {here}" if here else "there is no other setting: leave this out"


def _suggestion(name: str, siblings: Iterable[str]) -> str:
    """Return the known settings, with the nearest name or the only one that begins with it."""
    settings = [key for key in siblings if not key.startswith("_")]
    longer = [setting for setting in settings if setting.startswith(name)]
    known = nearest(name, settings)
    only = len(longer) == 1 and "did you mean" not in known
    return f"; did you mean '{longer[0]}'?{known}" if only else known


def unmatched_group(text: str, line: CommandLine | None) -> str | None:
    """Return a message that the defaults of this line lack a group; None for another error."""
    match = re.search(r"Could not override '([^']+)'\.", text)
    if match is None or ("No match" not in text and "Did you mean" not in text):
        return None
    group = match[1]
    word = re.search(r"use \+(\S.*)", text)
    override = word[1] if word else f"{group}=OPTION"
    if line and (reason := line.lacks(group)):
        return f"{override}: {reason}"
    others = re.search(r"Did you mean to override (?:one of )?(.+)\?", text)
    option = override.partition("=")[2]
    if others is None:
        if addition := _named_part(group, option, line):
            return f"{override}: {addition}"
        return f"{override}: nothing in this line has {group}: leave it out"
    choices = [f"{key}={option}" for key in others[1].split(", ")]
    return f"{override}: {group} has another path in this line; write {' or '.join(choices)}"


def _named_part(group: str, option: str, line: CommandLine | None) -> str | None:
    """Return how to add an option to a part that has a named entry per option of its group."""
    pattern = re.compile(rf"\+{re.escape(group)}@([\w.]+)\.NAME=")
    for file in sorted(config_directory().glob("*/*.yaml")):
        if match := pattern.search(file.read_text(encoding="utf-8")):
            word = f"+{group}@{match[1]}.{option}={option}"
            part = f"{file.parent.name}={file.stem}"
            chosen = line is not None and line.choices.get(file.parent.name) == file.stem
            return f"each {group} has a name; write {word}{'' if chosen else f', with {part}'}"
    return None


def _typed_setting(key: str, text: str) -> tuple[str, str | None]:
    """Return the typed setting, and its value if the error has it."""
    whole = re.search(r"Could not override '([^']+)'.*\n.*use \+\S+?=(.*)", text)
    return (whole[1], whole[2]) if whole else (key, None)


def _equivalent_setting(
    key: str, text: str, root_keys: Iterable[str], line: CommandLine | None
) -> str | None:
    """Explain our name for the setting, or the choice that has it; None if neither is known."""
    root, (setting, value) = key.split(".")[0], _typed_setting(key, text)
    set_to = "" if value is None else f"={value}"
    if line and (same := equivalent_setting(line, setting)) and same != setting:
        recipe = line.choices["recipe"]
        return f"{setting} is not in the config with recipe={recipe}; here it is {same}{set_to}"
    lacks = line and root != setting and root not in _FOREIGN and line.lacks(root)
    if lacks and known_key(setting) != setting:
        return f"{setting} is not in the config: {lacks}"
    if root in root_keys and root != key:  # search only below our own key
        setting = key
    here = our_name(setting)
    fits = here and (
        root not in root_keys or here.startswith((f"{root}.", "nothing")) or here.endswith(setting)
    )
    if here is None or not fits or re.match(rf"{re.escape(setting)}\b", here):
        lacks = line and (line.lacks(key) or line.lacks(root))
        return f"{setting} is not in the config: {lacks}" if lacks else None
    message = in_our_words(setting, value) if value is not None else here
    return (
        f"{setting} is not in the config; {_translation(setting, value or '', str(message), line)}"
    )


def _translation(setting: str, value: str, here: str, line: CommandLine | None) -> str:
    """Return "here it is ..." with what replaces a setting of another library on this line.

    Args:
        setting: the setting, as typed.
        value: its value; empty: unknown.
        here: our name for it, with a note.
        line: the choices of the command line; None: ``here`` stays as it is.
    """
    path = re.match(r"[a-z_]+(?:\.\w+)*(?=[= ]|$)", here)
    if line is None or path is None:
        return f"here it is {here}"
    if ours := translate(setting, value):
        override = fit(line, ours)
        if override is not None:
            return f"here it is {here if override == ours else override}"
    elif (same := equivalent_setting(line, path[0])) and not line.lacks(path[0].split(".")[0]):
        return f"here it is {here if same == path[0] else same}"
    lacks = line.lacks(path[0].split(".")[0]) or line.lacks(path[0])
    return f"here it is {here}" + (f", but {lacks}" if lacks else "")


def _options_with(key: str, line: CommandLine | None) -> list[str]:
    """Return the options of a group, ``task=file``, whose yaml sets this key.

    A group may have another path: ``evaluator@evaluation=shifted``.
    """
    path, _, name = key.rpartition(".")
    group = word = path.replace(".", "/")
    for chosen in line.choices if line else ():
        if chosen.endswith(f"@{path}"):
            group, word = chosen.partition("@")[0], chosen
    files = sorted((config_directory() / group).glob("*.yaml")) if group else []
    options = {file.stem: OmegaConf.load(file) for file in files}
    return [f"{word}={option}" for option, node in options.items() if {"_target_", name} <= {*node}]


def keys_below(config: DictConfig, parent: str) -> list[str]:
    """Return the keys of a config below a path; at the root also the groups."""
    node = OmegaConf.select(config, parent) if parent else config
    groups = [entry.name for entry in config_directory().iterdir() if entry.is_dir()]
    below = [str(key) for key in node] if isinstance(node, DictConfig) and node else []
    return below + (groups if not parent else [])
