"""Messages for settings and groups that a config does not have."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable

from omegaconf import DictConfig, OmegaConf

from rlcomp.advice.foreign_options import known_key, near_foreign_name, our_name
from rlcomp.advice.similar_settings import fit, like
from rlcomp.advice.translation import in_our_words, translated
from rlcomp.config.compose import CommandLine
from rlcomp.config.migrations import new_name
from rlcomp.config.options import config_directory, having
from rlcomp.errors import nearest

# Most options, and most places of a setting, in a message.
_SHOWN, _PLACES = 5, 3
# Settings that a phase may take over from the one that it is like.
_OF_PHASES = ("steps", "stages", "every", "without", "insert")
# Nodes of other libraries' configs; no name here is near to these.
_FOREIGN = ("trainer", "data", "algorithm", "actor_rollout_ref", "critic", "actor", "algo")


def unknown_key(
    key: str, text: str, keys: Callable[[str], Iterable[str]], line: CommandLine | None
) -> str:
    """Explain that the config does not have a setting.

    Args:
        key: where it is missing, at its first part that is.
        text: of the error.
        keys: gives the keys of the config below a path.
        line: the choices of the command line, where it is known.
    """
    parent, _, name = key.rpartition(".")
    new = new_name(name)
    if new is not None:
        return f"{key} is not in the config: since 0.2 it is {parent + '.' if parent else ''}{new}"
    if message := _taken_over(key, text, keys(parent)) or _elsewhere(key, text, keys(""), line):
        return message
    if line and (message := _no_phase(key, line)):
        return message
    if line and OmegaConf.select(line.config, parent) == {}:
        given, value = _given(key, text)
        return (
            f"{key} is not in the config; {parent} is empty, and a + adds to it: "
            f"+{given}={value or '...'}"
        )
    if name in (beside := [*keys(parent)]):
        return (
            f"{key} is a choice of parts whose settings stand elsewhere; "
            f"rlcomp ... {key}=OPTION --cfg job shows where"
        )
    return _not_there(key, text, beside, line)


def _taken_over(key: str, text: str, beside: Iterable[str]) -> str | None:
    """Explain that a phase takes a setting over from the phase that it is like."""
    parent, _, name = key.rpartition(".")
    if not parent.startswith("phases.") or name not in _OF_PHASES or "like" not in beside:
        return None
    given, value = _given(key, text)
    return (
        f"{key} is not in the config, but taken over from the phase that {parent}.like names; give "
        f"it one of its own, +{given}={value or '...'}"
    )


def _no_phase(key: str, line: CommandLine) -> str | None:
    """Explain that a choice takes the phase of a setting out (``phases.online: null``)."""
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
    """Return whether an option's yaml takes a phase out."""
    file = config_directory() / choice.partition("@")[0] / f"{option}.yaml"
    own = OmegaConf.select(OmegaConf.load(file), "phases") if file.is_file() else None
    return isinstance(own, DictConfig) and phase in own and own[phase] is None


def _not_there(key: str, text: str, beside: list[str], line: CommandLine | None) -> str:
    """Explain an unknown setting, by the settings beside it."""
    (parent, _, name), group = key.rpartition("."), key.split(".")[0]
    if having := _options_with(key, line):
        more = ", …" if len(having) > _SHOWN else ""
        return f"{key} is not in the config; it is a setting of {', '.join(having[:_SHOWN])}{more}"
    if parent and not beside and (config_directory() / group).is_dir():
        return (
            f"{key} is not in the config: as {group} is chosen, it has no settings; choose another "
            f"{group}=OPTION (rlcomp help {group})"
        )
    if key in _FOREIGN:
        return (
            f"{_given(key, text)[0]} is not in the config, and nothing here is known to be the "
            "same; leave it out (rlcomp --help lists what there is)"
        )
    if parent and "_" in name and (here := our_name(name)):  # a plain word may be anything
        value = _given(key, text)[1]
        message = in_our_words(name, value) if value is not None else here
        return f"{key} is not in the config; {_fitting(name, value or '', str(message), line)}"
    known = f"{key} is not in the config{_known(name, beside)}"
    if group == "phases" and parent:
        where = f"phases.{next(iter(beside), 'rl')}" if parent == "phases" else parent
        return f"{known}; phases are counted in steps: {where}.steps=..."
    others = line if "did you mean" not in known else None
    if message := _an_option(key) or _of_other_part(name, beside, line) or _standing(name, others):
        return f"{key} is not in the config; {message}"
    # A part takes only the arguments that it declares.
    if beside and (config_directory() / group).is_dir():
        due = _due(parent, beside, _given(key, text)[1], line)
        return known if "did you mean" in known else f"{known}; {due or _like(name, group)}"
    return f"{known}; a + before it adds a new key"


def _an_option(name: str) -> str | None:
    """Return the choice of an option written as a setting; None unless one group has it."""
    files = [*config_directory().glob(f"*/{name}.yaml")] if re.fullmatch(r"\w+", name) else []
    return f"it is an option, {files[0].parent.name}={name}" if len(files) == 1 else None


def _of_other_part(name: str, beside: list[str], line: CommandLine | None) -> str | None:
    """Which part elsewhere has a setting of this name, where one alone has; None: none."""
    groups = having(name)
    if any(one.startswith(name) for one in beside):
        return None
    if line is None or len(groups) != 1 or difflib.get_close_matches(name, beside, cutoff=0.75):
        return None
    path = f"{groups[0]}.{name}"
    lacks = line.lacks(groups[0])
    return f"here it is {path}" + (f", and {lacks}" if lacks else "")


def _standing(name: str, line: CommandLine | None) -> str | None:
    """Return the few other places of a setting of this name; None if there are many."""
    places = line.paths(name) if line else []
    return f"here it is {' or '.join(places)}" if 0 < len(places) <= _PLACES else None


def _due(parent: str, beside: list[str], value: str | None, line: CommandLine | None) -> str | None:
    """Return the only setting of a part that is still missing (``???``), with the value."""
    node = OmegaConf.select(line.config, parent) if line else None
    due = [
        one for one in beside if isinstance(node, DictConfig) and OmegaConf.is_missing(node, one)
    ]
    if len(due) != 1:
        return None
    path = f"{parent}.{due[0]}"
    return f"{path} is what has to be given, {path}={value or '...'}"


def _like(name: str, group: str) -> str:
    """Return a setting like one that a group does not have, there or elsewhere."""
    if near := near_foreign_name(name, group):
        return f"like it is {near}"
    here = our_name(name)
    return f"elsewhere {name} is {here}" if here else "it takes no other: leave this out"


def _known(name: str, beside: Iterable[str]) -> str:
    """Return the known settings, and the one that is meant: a near name, or one that begins so."""
    settings = [one for one in beside if not one.startswith("_")]
    longer = [one for one in settings if one.startswith(name)]
    known = nearest(name, settings)
    only = len(longer) == 1 and "did you mean" not in known
    return f"; did you mean '{longer[0]}'?{known}" if only else known


def unmatched_group(text: str, line: CommandLine | None) -> str | None:
    """Explain that the defaults of this line do not have a group; None for another error."""
    match = re.search(r"Could not override '([^']+)'\.", text)
    if match is None or ("No match" not in text and "Did you mean" not in text):
        return None
    group = match[1]
    word = re.search(r"use \+(\S.*)", text)
    override = word[1] if word else f"{group}=OPTION"
    if line and (told := line.lacks(group)):
        return f"{override}: {told}"
    meant = re.search(r"Did you mean to override (?:one of )?(.+)\?", text)
    if meant is None:
        if told := _named_part(group, override, line):
            return f"{override}: {told}"
        return f"{override}: nothing in this line has {group}: leave it out"
    value = override.partition("=")[2]
    places = [f"{place}={value}" for place in meant[1].split(", ")]
    return f"{override}: {group} stands elsewhere in this line; write {' or '.join(places)}"


def _named_part(group: str, given: str, line: CommandLine | None) -> str | None:
    """Return how an option is added to a part that holds its group by name, by the part's yaml."""
    option = given.rpartition("=")[2]
    pattern = re.compile(rf"\+{re.escape(group)}@([\w.]+)\.NAME=")
    for file in sorted(config_directory().glob("*/*.yaml")):
        if found := pattern.search(file.read_text(encoding="utf-8")):
            word = f"+{group}@{found[1]}.{option}={option}"
            part = f"{file.parent.name}={file.stem}"
            there = line is not None and line.choices.get(file.parent.name) == file.stem
            return f"{group} is held by name; write {word}{'' if there else f', with {part}'}"
    return None


def _given(key: str, text: str) -> tuple[str, str | None]:
    """Return the typed setting, and its value if the error has it."""
    whole = re.search(r"Could not override '([^']+)'.*\n.*use \+\S+?=(.*)", text)
    return (whole[1], whole[2]) if whole else (key, None)


def _elsewhere(key: str, text: str, own: Iterable[str], line: CommandLine | None) -> str | None:
    """Return our name for the setting, or the choice that has it; None: neither is known."""
    root, (given, value) = key.split(".")[0], _given(key, text)
    set_to = "" if value is None else f"={value}"
    if line and (same := like(line, given)) and same != given:
        recipe = line.choices["recipe"]
        return f"{given} is not in the config with recipe={recipe}; here it is {same}{set_to}"
    lacks = line and root != given and root not in _FOREIGN and line.lacks(root)
    if lacks and known_key(given) != given:
        return f"{given} is not in the config: {lacks}"
    if root in own and root != key:  # below a key of ours only what is below it
        given = key
    here = our_name(given)
    there = here and (
        root not in own or here.startswith((f"{root}.", "nothing")) or here.endswith(given)
    )
    if here is None or not there or re.match(rf"{re.escape(given)}\b", here):
        lacks = line and (line.lacks(key) or line.lacks(root))
        return f"{given} is not in the config: {lacks}" if lacks else None
    message = in_our_words(given, value) if value is not None else here
    return f"{given} is not in the config; {_fitting(given, value or '', str(message), line)}"


def _fitting(given: str, value: str, told: str, line: CommandLine | None) -> str:
    """Return a setting of another library in words that this line takes."""
    path = re.match(r"[a-z_]+(?:\.\w+)*(?=[= ]|$)", told)
    ours = translated(given, value)
    if line is None or path is None:
        return f"here it is {told}"
    if ours:
        override = fit(line, ours)
        if override is not None:
            return f"here it is {told if override == ours else override}"
    elif (same := like(line, path[0])) and not line.lacks(path[0].split(".")[0]):
        return f"here it is {told if same == path[0] else same}"
    lacks = line.lacks(path[0].split(".")[0]) or line.lacks(path[0])
    return f"here it is {told}" + (f", but {lacks}" if lacks else "")


def _options_with(key: str, line: CommandLine | None) -> list[str]:
    """Return the options of a group, ``task=file``, whose yaml sets this key.

    Where a group stands at another path, they are written so: ``evaluator@evaluation=shifted``.
    """
    path, _, name = key.rpartition(".")
    group = word = path.replace(".", "/")
    for chosen in line.choices if line else ():
        if chosen.endswith(f"@{path}"):
            group, word = chosen.partition("@")[0], chosen
    files = sorted((config_directory() / group).glob("*.yaml")) if group else []
    options = {file.stem: OmegaConf.load(file) for file in files}
    return [f"{word}={option}" for option, own in options.items() if {"_target_", name} <= {*own}]


def keys_below(config: DictConfig, parent: str) -> list[str]:
    """Return the keys of a config below a path; at the root also the groups."""
    node = OmegaConf.select(config, parent) if parent else config
    groups = [entry.name for entry in config_directory().iterdir() if entry.is_dir()]
    below = [str(key) for key in node] if isinstance(node, DictConfig) and node else []
    return below + (groups if not parent else [])
