"""Checks of the options on a command line: lists of exclusive options, options at wrong keys."""

from __future__ import annotations

import difflib
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from omegaconf import DictConfig, OmegaConf

from rlcomp.config.compose import command_line
from rlcomp.config.options import COMBINED, NO_SWEEP, config_directory, options_of
from rlcomp.config.overrides import typed_words, whole_line
from rlcomp.errors import ConfigErrors, nearest

# A list of options, ``kl=[a,b]``; and an option, or a sweep of options.
_LIST = re.compile(r"([\w/@.]+)=\[ *(\w+(?: *, *\w+)+) *\]")
_OPTION = re.compile(r"([\w/.]+)=(\w+(?:,\w+)*)")
# Several rewards, as TRL and other libraries write them: as a list, and as a mapping.
_REWARDS = re.compile(
    r"(?:\w+\.)*(?:reward|rewards|reward_funcs|reward\.(?:parts|functions|names))=\[(.*)\]"
)
_REWARD_MAPPING = re.compile(r"reward\.(?:parts|rewards)=\{(.*)\}")


def check_choices(words: Sequence[str], directories: Sequence[str]) -> None:
    """Refuse choices of options that Hydra would accept with another meaning.

    Args:
        words: words of the command line.
        directories: directories of the user's own configs.

    Raises:
        ConfigErrors: a list of exclusive options, of which Hydra would use only the last; several
            rewards in one word; a setting below a group that is set to the path of a class; or an
            option at the path of its part, ``learner.schedule=cosine``.
    """
    typed = typed_words(words)
    faults = [fault for word in typed for fault in _faults(word, typed, directories)]
    if faults:
        raise ConfigErrors(faults)


def repeated_choices(words: Sequence[str], program: str = "rlcomp") -> list[str]:
    """Return a message on each group from which a command line chooses two different options.

    Args:
        words: overrides.
        program: the program: ``rlcomp`` sweeps, ``rlcomp-describe`` compares.

    Examples:
        >>> repeated_choices(["kl=a", "recipe=grpo", "kl=b"])
        ['kl is chosen twice, and the last counts, kl=b; a sweep of both is rlcomp -m kl=a,b']
        >>> repeated_choices(["kl=none", "kl=none", "seed=0", "seed=1"])
        []
    """
    values: dict[str, list[str]] = {}
    for word in words:
        choice = re.fullmatch(r"([\w/]+)(@[\w.]+)?=([^,]+)", word)
        # A setting may be set twice, such as a script's default.
        if choice and (config_directory() / choice[1]).is_dir():
            values.setdefault(choice[1] + (choice[2] or ""), []).append(choice[3])
    messages = []
    for key, options in values.items():
        if len({*options}) > 1:
            remedy = f"a sweep of both is rlcomp -m {key}={','.join(dict.fromkeys(options))}"
            if program == "rlcomp-describe":
                remedy = f"to compare: {program} {key}={options[0]} --against {key}={options[-1]}"
            messages.append(
                f"{key} is chosen twice, and the last counts, {key}={options[-1]}; {remedy}"
            )
    return messages


def _faults(word: str, words: Sequence[str], directories: Sequence[str]) -> Iterator[str]:
    places = [config_directory(), *map(Path, directories)]
    message = _weighted_rewards(word, words, places) or _setting_of_path(word, words)
    if message is None and (match := _LIST.fullmatch(word)):
        names = re.split(" *, *", match[2])
        if _are_exclusive(match[1].partition("@")[0], names, places):
            message = _exclusive_message(word, match[1], names, words)
    elif message is None and _may_be_choice(word, places):
        message = _choice_message(word, words, directories)
    if message:
        yield f"{word}: {message}"


def _weighted_rewards(word: str, words: Sequence[str], places: Sequence[Path]) -> str | None:
    """Return how several rewards of one word are weighted; None: it names at most one."""
    options = options_of("reward", places)
    names = rewards_in(word)
    if len(names) < 2 or not all(name in options for name in names.values()):
        return None
    from rlcomp.advice.weighted_rewards import weighted_rewards_message

    return weighted_rewards_message(names, words, places)


def rewards_in(word: str) -> dict[str, str]:
    """Return the rewards that a word names, by the names of their parts.

    Examples:
        >>> rewards_in("reward=[boxed,format]"), rewards_in("reward=boxed")
        ({'boxed': 'boxed', 'format': 'format'}, {})
    """
    if match := _REWARDS.fullmatch(word):
        return {name: name for name in re.findall(r"\w+", match[1])}
    if match := _REWARD_MAPPING.fullmatch(word):
        return dict(re.findall(r"(\w+) *: *(\w+)", match[1]))
    return {}


def _setting_of_path(word: str, words: Sequence[str]) -> str | None:
    """Return a message on a setting below a group that is set to a path; None for other words.

    For example, ``reward=my.Reward reward.x=1``: a text has no settings.
    """
    key = word.lstrip("+").partition("=")[0]
    parent = key.rpartition(".")[0]
    values = dict(other.lstrip("+").partition("=")[::2] for other in words)
    target = values.get(parent, "")
    if not parent or not re.fullmatch(r"[A-Za-z_]\w*(\.\w+)+", target):
        return None
    settings = {name: text for name, text in values.items() if name.rpartition(".")[0] == parent}
    inside = [f"_target_: {target}"]
    inside += [f"{name.rpartition('.')[2]}: {text}" for name, text in settings.items()]
    whole = f"{parent}={{{', '.join(inside)}}}"
    line = [w for w in words if w.lstrip("+").partition("=")[0] not in (parent, *settings)]
    return (
        f"{parent} is {target}, a path, which has no settings: give a mapping with _target_\n"
        f"the whole line: {whole_line([*line, whole])}"
    )


def _exclusive_message(word: str, key: str, names: Sequence[str], words: Sequence[str]) -> str:
    message = f"{key} takes one option, and of a list only the last would count; "
    if key in NO_SWEEP:
        return f"{message}write {f' or {key}='.join([f'{key}={names[0]}', *names[1:]])}"
    sweep = [f"{key}={','.join(names)}" if other == word else other for other in words]
    line = sweep if "-m" in words or "--multirun" in words else ["-m", *sweep]
    return (
        f"{message}write {key}={names[0]}, or a sweep of them\nthe whole line: {whole_line(line)}"
    )


def _are_exclusive(group: str, names: Sequence[str], places: Sequence[Path]) -> bool:
    """Return whether options of a group replace one another."""
    options = options_of(group, places)
    if group in COMBINED or not {*names} <= {*options}:
        return False
    replaced = [_replaced_paths(name, options) for name in names]
    return any(one & other for one, other in itertools.combinations(replaced, 2))


def _replaced_paths(name: str, options: Mapping[str, Path]) -> frozenset[str]:
    """Return the paths that an option sets: its nodes, and the groups it chooses from.

    A node is a ``_target_`` at the top of the yaml ("") or one level below (its key).
    """
    text = options[name].read_text(encoding="utf-8", errors="replace")
    nodes = re.findall(r"^((?:\w+:\n +)?)_target_:", text, re.MULTILINE)
    chosen = re.findall(r"^ *- (?:override )?/([\w/@.]+):", text, re.MULTILINE)
    bases = re.findall(r"^ *- (\w+)$", text, re.MULTILINE)
    inner = [_replaced_paths(base, options) for base in bases if base in options and base != name]
    return frozenset([*(path.strip(": \n") for path in nodes), *chosen]).union(*inner)


def _may_be_choice(word: str, places: Sequence[Path]) -> bool:
    """Return whether a word looks like the choice of an option, with a wrong key."""
    match = _OPTION.fullmatch(word)
    if match is None:
        return False
    key, values = match.groups()
    is_group = any((place / key).is_dir() for place in places)
    if is_group or not re.search(r"[./]", key) or values == "null":
        return False
    last = re.split(r"[./]", key)[-1]
    groups = [entry.name for place in places for entry in place.glob("**/*") if entry.is_dir()]
    stems = [
        name for name in values.split(",") for place in places if [*place.glob(f"**/{name}.yaml")]
    ]
    return bool(difflib.get_close_matches(last, groups, n=1, cutoff=0.8)) or bool(stems)


def _choice_message(word: str, words: Sequence[str], directories: Sequence[str]) -> str | None:
    """Return a message with the right key of an option; None: the key is not near to any part's."""
    key, _, values = word.partition("=")
    line = command_line([word for word in words if not word.startswith(f"{key}=")], directories)
    path, names = key.replace("/", "."), values.split(",")
    by_path = {_path(choice): choice for choice in line.choices}
    similar = difflib.get_close_matches(path, by_path, n=1, cutoff=0.8)
    likely = path if path in by_path else next(iter(similar), None)
    if likely is None or likely.rpartition(".")[0] != path.rpartition(".")[0]:
        return None
    choice = by_path[likely]
    options = options_of(choice.partition("@")[0], [config_directory(), *map(Path, directories)])
    part = OmegaConf.select(line.config, likely)
    if not isinstance(part, DictConfig) or not (likely == path or {*names} <= {*options}):
        return None
    if unknown := [name for name in names if name not in options]:
        shown = f"{choice}=OPTION{nearest(unknown[0], options)}"
        return f"it is a part: choose an option of it by {shown}"
    if likely != path:
        return f"there is no {key} here; did you mean {choice}={values}?"
    return f"it is a part: choose an option of it by {choice}={values}"


def _path(choice: str) -> str:
    """Return the path of a group's option in the config.

    Examples:
        >>> _path("schedule@learner.schedule"), _path("loss/trust_region")
        ('learner.schedule', 'loss.trust_region')
    """
    return (choice.partition("@")[2] or choice).replace("/", ".")
