"""Settings of other libraries with their values, as they are written here."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from hydra.errors import HydraException, OverrideParseException
from omegaconf.errors import OmegaConfBaseException

from rlcomp.advice.foreign_options import TABLE, known_key, our_name, our_option
from rlcomp.config.compose import compose_config
from rlcomp.config.options import config_directory
from rlcomp.config.overrides import (
    Refused,
    filter_overrides,
    only_overrides,
    typed_words,
    whole_line,
)

_NUMBER = r"\d+(\.\d*)?(e[+-]?\d+)?"
# Overrides that a setting of others becomes, by its name: "{}" is its value.
_NUMBERS: dict[str, str] = TABLE["numbers"]
_TEXTS: dict[str, str] = TABLE["texts"]
# The group whose option the value is; of some of these, a whole method as well.
_GROUPS: dict[str, str] = TABLE["groups"]
_METHODS: list[str] = TABLE["methods"]
# By name and value.
_SWITCHES: dict[str, dict[str, str]] = TABLE["switches"]


def translated(key: str, value: str) -> str | None:
    """Return our overrides for a setting of another library; None: there are none.

    Where a value may mean something else here (a text, what is below 0), none does.

    Examples:
        >>> translated("actor_rollout_ref.rollout.n", "8")
        'group_size=8'
        >>> translated("algorithm.adv_estimator", "rloo"), translated("lora_r", "16")
        ('advantage=leave_one_out', 'adapter=lora adapter.rank=16')
        >>> translated("ppo_mini_batch_size", "64"), translated("top_k", "-1")
        (None, None)
    """
    word = known_key(key)
    if not word or not value:
        return None
    if group := _GROUPS.get(word):
        return _option(group, value)
    if override := _SWITCHES.get(word, {}).get(value.lower()):
        return override
    if word in _TEXTS:
        return _TEXTS[word].format(value)
    plain = our_name(word) or ""
    takes = _NUMBERS.get(word) or (f"{plain}={{}}" if re.fullmatch(r"[\w.]+", plain) else None)
    return takes.format(value) if takes and re.fullmatch(_NUMBER, value, re.I) else None


def _option(group: str, value: str) -> str | None:
    """Return the choice of an option, by its name here or elsewhere."""
    folder, _, at = group.partition("@")
    if here := our_option(folder, value):
        return here if re.fullmatch(r"[\w/]+=\w+", here) and not at else None
    there = (config_directory() / folder / f"{value.lower()}.yaml").is_file()
    return f"{group}={value.lower()}" if there else None


def in_our_words(key: str, value: str) -> str | None:
    """Return our name for a setting of another library, with its value where that fits.

    Examples:
        >>> in_our_words("data.train_batch_size", "64")
        'prompts.batch_size=64 (prompts a step, each answered group_size times)'
        >>> in_our_words("temperature", "warm"), in_our_words("no_such", "1")
        ('decoding.temperature', None)
    """
    here, own = our_name(key), translated(key, value)
    if here is None or own is None:
        return here
    path, _, about = here.partition(" ")
    whole = f"recipe={own.rpartition('=')[2]}"
    if known_key(key) in _METHODS and whole != own and _is_recipe(whole):
        return f"{own} (the part alone; the whole method is {whole})"
    return f"{own} {about}" if about.startswith("(") and own.startswith(f"{path}=") else own


def _is_recipe(word: str) -> bool:
    return (config_directory() / f"{word.replace('=', '/')}.yaml").is_file()


def all_refused(error: Exception, words: Sequence[str], config_dirs: Sequence[str]) -> Refused:
    """Each word of a command line that the config does not know, in order, with the error.

    Where an option is not there, what only that option has may be among the others: of these only
    the words of other libraries.

    Args:
        error: what composing ended with.
        words: of the command line.
        config_dirs: directories of the user's own configs.
    """
    overrides = only_overrides(words)
    sweep = {"-m", "--multirun"} & {*words}
    if isinstance(error, OverrideParseException) or sweep or len(overrides) < 2:
        return []
    try:
        _, refused = filter_overrides(lambda texts: compose_config(texts, config_dirs), overrides)
    except (HydraException, OmegaConfBaseException, ValueError):
        return []  # what is wrong lies elsewhere: a directory that is not there
    if any("Could not find" in str(one) for _, one in refused):
        refused = [
            (word, one)
            for word, one in refused
            if "Could not find" in str(one) or _is_foreign(word.partition("=")[0])
        ]
    return sorted(refused, key=lambda one: overrides.index(one[0]))


def _is_foreign(key: str) -> bool:
    return bool(known_key(key)) and not (config_directory() / key.split(".")[0]).is_dir()


def corrected(
    words: Sequence[str],
    refused: Mapping[str, str],
    config_dirs: Sequence[str],
    fit: Callable[[str], str | None],
) -> list[str]:
    """Return the whole line in our words, if a message tells our name for each refused word.

    Those whose value has another meaning here are left out and named.

    Args:
        words: of the command line.
        refused: of these, with what was told of each.
        config_dirs: directories of the user's own configs.
        fit: gives overrides as the choices of this line take them.
    """
    own = typed_words(words)
    translations = {word: _ours(*word.partition("=")[::2]) for word in refused}
    ours = {word: fit(one or word) for word, one in translations.items()}
    known = {word for word, one in ours.items() if one and one in refused[word]}
    # What has another unit here, or is nothing here, is left to the recipe.
    left = [word for word in own if word in {*refused} - known]
    instead = {**dict.fromkeys(left, ""), **{word: str(ours[word]) for word in known}}
    line = [one for word in own for one in (instead[word].split() if word in instead else [word])]
    if line == own:
        return []  # it would be refused again
    remains = known or any(word not in refused for word in own)
    if len(own) < 2 or not remains or not all(_is_said(refused[word]) for word in left):
        return []
    but = [word.partition("=")[0] for word in left if _NOTHING not in refused[word]]
    without = f" without {', '.join(but)}" if but else ""
    return [f"the whole line{without}: {whole_line(line)}"] if _composes(line, config_dirs) else []


# How a setting is told that has no like here, and needs none.
_NOTHING = "here it is nothing to set"


def _is_said(told: str) -> bool:
    """Return whether a message tells our name for a setting, so that it may be set later."""
    return "is not in the config; here it is " in told


def _ours(key: str, value: str) -> str | None:
    return translated(key, value) or _option(key.lstrip("+"), value)


def _composes(words: Sequence[str], config_dirs: Sequence[str]) -> bool:
    try:
        compose_config(only_overrides(words), config_dirs)
    except (HydraException, OmegaConfBaseException, ValueError):
        return False
    return True
