"""Check of options on a command line: lists of which one counts, options set as values."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from omegaconf import DictConfig, OmegaConf

from rlcomp.config.compose import command_line
from rlcomp.config.options import NO_SWEEP, TOGETHER, config_directory, options_of
from rlcomp.config.overrides import typed_words, whole_line
from rlcomp.errors import ConfigErrors, nearest

_LIST = re.compile(r"([\w/@.]+)=\[ *(\w+(?: *, *\w+)+) *\]")
_OPTION = re.compile(r"([\w/.]+)=(\w+(?:,\w+)*)")


_NAMES = re.compile(
    r"(?:\w+\.)*(?:reward|rewards|reward_funcs|reward\.(?:parts|functions|names))=\[(.*)\]"
)
_MAPPING = re.compile(r"reward\.(?:parts|rewards)=\{(.*)\}")


def check_choices(words: Sequence[str], directories: Sequence[str]) -> None:
    """Refuse options of a group that would not be what they say.

    Args:
        words: of the command line.
        directories: of the user's own configs.

    Raises:
        ConfigErrors: a list of options of which the last alone would count; or an option of a group
            as the value of its part's path, ``learner.schedule=cosine``.
    """
    typed = typed_words(words)
    faults = [fault for word in typed for fault in _faults(word, typed, directories)]
    if faults:
        raise ConfigErrors(faults)


def repeated(words: Sequence[str], program: str = "rlcomp") -> list[str]:
    """Return a message on each choice that stands twice on a command line: the last counts.

    Args:
        words: overrides.
        program: whose line it is: ``rlcomp`` sweeps, ``rlcomp-describe`` compares.

    Examples:
        >>> repeated(["kl=a", "recipe=grpo", "kl=b"])
        ['kl stands twice, and the last counts, kl=b; a sweep of both is rlcomp -m kl=a,b']
        >>> repeated(["kl=none", "kl=none", "seed=0", "seed=1"])
        []
    """
    values: dict[str, list[str]] = {}
    for word in words:
        choice = re.fullmatch(r"([\w/]+)(@[\w.]+)?=([^,]+)", word)
        # A script's setting that is set anew is no choice.
        if choice and (config_directory() / choice[1]).is_dir():
            values.setdefault(choice[1] + (choice[2] or ""), []).append(choice[3])
    messages = []
    for key, given in values.items():
        if len({*given}) > 1:
            both = f"a sweep of both is rlcomp -m {key}={','.join(dict.fromkeys(given))}"
            if program == "rlcomp-describe":
                both = f"to compare: {program} {key}={given[0]} --against {key}={given[-1]}"
            messages.append(f"{key} stands twice, and the last counts, {key}={given[-1]}; {both}")
    return messages


def _faults(word: str, words: Sequence[str], directories: Sequence[str]) -> Iterator[str]:
    places = [config_directory(), *map(Path, directories)]
    if message := _weighed(word, words, places):
        yield f"{word}: {message}"
    elif below := _below_path(word, words):
        yield f"{word}: {below}"
    elif listed := _LIST.fullmatch(word):
        names = re.split(" *, *", listed[2])
        if _is_of_one(listed[1].partition("@")[0], names, places):
            yield f"{word}: {_one_of(word, listed[1], names, words)}"
    elif (option := _OPTION.fullmatch(word)) and _may_be_chosen(option[1], option[2], places):
        explanation = _chosen_by(option[1], option[2], words, directories)
        if explanation:
            yield f"{word}: {explanation}"


def _weighed(word: str, words: Sequence[str], places: Sequence[Path]) -> str | None:
    """Return how several rewards of one word are weighed; None: it names no several."""
    options = options_of("reward", places)
    names = rewards_in(word)
    if len(names) < 2 or not all(name in options for name in names.values()):
        return None
    from rlcomp.advice.weighted_rewards import weighed_line

    return weighed_line(names, words, places)


def rewards_in(word: str) -> dict[str, str]:
    """Return the rewards that a word names, by the names of their parts.

    Examples:
        >>> rewards_in("reward=[boxed,format]"), rewards_in("reward=boxed")
        ({'boxed': 'boxed', 'format': 'format'}, {})
    """
    if found := _NAMES.fullmatch(word):
        return {name: name for name in re.findall(r"\w+", found[1])}
    if found := _MAPPING.fullmatch(word):
        return dict(re.findall(r"(\w+) *: *(\w+)", found[1]))
    return {}


def _below_path(word: str, words: Sequence[str]) -> str | None:
    """Explain that a setting stands below one whose value is the path of a class or function."""
    key = word.lstrip("+").partition("=")[0]
    parent = key.rpartition(".")[0]
    values = dict(one.lstrip("+").partition("=")[::2] for one in words)
    target = values.get(parent, "")
    if not parent or not re.fullmatch(r"[A-Za-z_]\w*(\.\w+)+", target):
        return None
    own = {name: text for name, text in values.items() if name.rpartition(".")[0] == parent}
    inside = [f"_target_: {target}"]
    inside += [f"{name.rpartition('.')[2]}: {text}" for name, text in own.items()]
    whole = f"{parent}={{{', '.join(inside)}}}"
    line = [one for one in words if one.lstrip("+").partition("=")[0] not in (parent, *own)]
    return (
        f"{parent} is {target}, a path, which has no settings; those of a class stand beside it\n"
        f"the whole line: {whole_line([*line, whole])}"
    )


def _one_of(word: str, key: str, names: Sequence[str], words: Sequence[str]) -> str:
    message = f"of {key} one option is chosen, and of a list only the last would count; "
    if key in NO_SWEEP:
        return f"{message}write {f' or {key}='.join([f'{key}={names[0]}', *names[1:]])}"
    sweep = [f"{key}={','.join(names)}" if one == word else one for one in words]
    line = sweep if "-m" in words or "--multirun" in words else ["-m", *sweep]
    return (
        f"{message}write {key}={names[0]}, or a sweep of them\nthe whole line: {whole_line(line)}"
    )


def _is_of_one(group: str, names: Sequence[str], places: Sequence[Path]) -> bool:
    """Return whether options of a group take the place of one another."""
    options = options_of(group, places)
    if group in TOGETHER or not {*names} <= {*options}:
        return False
    taken = [_taken(name, options) for name in names]
    return any(one & other for at, one in enumerate(taken) for other in taken[:at])


def _taken(name: str, options: Mapping[str, Path]) -> frozenset[str]:
    """Return the places that an option takes whole: its nodes, and the groups it chooses from."""
    text = options[name].read_text(encoding="utf-8", errors="replace")
    own = re.findall(r"^((?:\w+:\n +)?)_target_:", text, re.MULTILINE)
    chosen = re.findall(r"^ *- (?:override )?/([\w/@.]+):", text, re.MULTILINE)
    bases = re.findall(r"^ *- (\w+)$", text, re.MULTILINE)
    inner = [_taken(base, options) for base in bases if base in options and base != name]
    return frozenset([*(one.strip(": \n") for one in own), *chosen]).union(*inner)


def _may_be_chosen(key: str, values: str, places: Sequence[Path]) -> bool:
    """Return whether a word looks like the choice of an option whose group is written otherwise."""
    group = any((place / key).is_dir() for place in places)
    if group or not re.search(r"[./]", key) or values == "null":
        return False
    last = re.split(r"[./]", key)[-1]
    groups = [entry.name for place in places for entry in place.glob("**/*") if entry.is_dir()]
    stems = [
        name for name in values.split(",") for place in places if [*place.glob(f"**/{name}.yaml")]
    ]
    return bool(difflib.get_close_matches(last, groups, n=1, cutoff=0.8)) or bool(stems)


def _chosen_by(
    key: str, values: str, words: Sequence[str], directories: Sequence[str]
) -> str | None:
    """Return how an option set at the path of its part is chosen; None: it is no option."""
    line = command_line([word for word in words if not word.startswith(f"{key}=")], directories)
    path, names = key.replace("/", "."), values.split(",")
    by_place = {_place(choice): choice for choice in line.choices}
    near = difflib.get_close_matches(path, by_place, n=1, cutoff=0.8)
    parent = path.rpartition(".")[0]
    meant = path if path in by_place else next((one for one in near), None)
    if meant is None or meant.rpartition(".")[0] != parent:
        return None
    choice = by_place[meant]
    options = options_of(choice.partition("@")[0], [config_directory(), *map(Path, directories)])
    part = OmegaConf.select(line.config, meant)
    if not isinstance(part, DictConfig) or not (meant == path or {*names} <= {*options}):
        return None
    if strange := [name for name in names if name not in options]:
        shown = f"{choice}=OPTION{nearest(strange[0], options)}"
        return f"it is a part, and an option of it is chosen by {shown}"
    if meant != path:
        return f"there is no {key} here; did you mean {choice}={values}?"
    return f"it is a part, and an option of it is chosen by {choice}={values}"


def _place(choice: str) -> str:
    """Return the path of a group's option in the config.

    Examples:
        >>> _place("schedule@learner.schedule"), _place("loss/trust_region")
        ('learner.schedule', 'loss.trust_region')
    """
    return (choice.partition("@")[2] or choice).replace("/", ".")
