"""Translation of settings of other libraries and of other recipes, with their values."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from hydra.errors import HydraException, OverrideParseException
from omegaconf.errors import OmegaConfBaseException

from rlcomp.advice.foreign_options import CONTROL_PATHS, TABLE, known_key, our_name, our_option
from rlcomp.config.compose import CommandLine, compose_config
from rlcomp.config.options import config_directory
from rlcomp.config.overrides import (
    RefusedOverrides,
    filter_overrides,
    only_overrides,
    typed_words,
    whole_line,
)

_NUMBER = r"\d+(\.\d*)?(e[+-]?\d+)?"
# Our overrides for a setting of others, by its name: "{}" is the value.
_NUMBERS: dict[str, str] = TABLE["numbers"]
_TEXTS: dict[str, str] = TABLE["texts"]
# Groups here whose option is the value of another library's setting, by its name; and the settings
# among them whose value may also be a recipe.
_GROUPS: dict[str, str] = TABLE["groups"]
_METHODS: list[str] = TABLE["methods"]
# Our overrides for a setting of others, by its name and its value.
_SWITCHES: dict[str, dict[str, str]] = TABLE["switches"]
# Nodes of recipes that imitate, by the equivalent nodes of recipes that sample.
_IMITATION = {"prompts": "demonstrations", "learner": "sft_learner"}
# Names of settings in control, with their paths here.
_CONTROL = {**CONTROL_PATHS, "batch_size": "sample.batch_size", "gamma": "loss.gamma"}


def translate(key: str, value: str) -> str | None:
    """Return our overrides for a setting of another library; None: there are none.

    A value that may have another meaning here (a text, a negative number) has none.

    Examples:
        >>> translate("actor_rollout_ref.rollout.n", "8")
        'group_size=8'
        >>> translate("algorithm.adv_estimator", "rloo"), translate("lora_r", "16")
        ('advantage=leave_one_out', 'adapter=lora adapter.rank=16')
        >>> translate("ppo_mini_batch_size", "64"), translate("top_k", "-1")
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
    pattern = _NUMBERS.get(word) or (f"{plain}={{}}" if re.fullmatch(r"[\w.]+", plain) else None)
    return pattern.format(value) if pattern and re.fullmatch(_NUMBER, value, re.I) else None


def _option(group: str, value: str) -> str | None:
    """Return the choice of an option by our name, or by another library's name."""
    folder, _, path = group.partition("@")
    if here := our_option(folder, value):
        return here if re.fullmatch(r"[\w/]+=\w+", here) and not path else None
    exists = (config_directory() / folder / f"{value.lower()}.yaml").is_file()
    return f"{group}={value.lower()}" if exists else None


def in_our_words(key: str, value: str) -> str | None:
    """Return our name for a setting of another library, with the value if it is translated.

    Examples:
        >>> in_our_words("data.train_batch_size", "64")
        'prompts.batch_size=64 (prompts a step, each answered group_size times)'
        >>> in_our_words("temperature", "warm"), in_our_words("no_such", "1")
        ('decoding.temperature', None)
    """
    here, translation = our_name(key), translate(key, value)
    if here is None or translation is None:
        return here
    path, _, note = here.partition(" ")
    option = translation.rpartition("=")[2]
    has_recipe = (config_directory() / "recipe" / f"{option}.yaml").is_file()
    if known_key(key) in _METHODS and translation != f"recipe={option}" and has_recipe:
        return f"{translation} (the part alone; the whole method is recipe={option})"
    return (
        f"{translation} {note}"
        if note.startswith("(") and translation.startswith(f"{path}=")
        else translation
    )


def equivalent_setting(line: CommandLine, path: str) -> str | None:
    """Return the setting that is equivalent to a setting of another recipe; None without any.

    Args:
        line: the choices of the command line.
        path: path of the setting in the other recipe.
    """
    if line.has(path):
        return path
    if path in _CONTROL and line.has(_CONTROL[path]):
        return _CONTROL[path]
    root, _, remainder = path.partition(".")
    phase, _, setting = remainder.partition(".")
    candidate = f"{_IMITATION.get(root)}.{remainder}"
    if root == "phases" and len(line.config.phases) == 1:
        (only,) = line.config.phases
        candidate = f"phases.{only}.{setting}" if only != phase else ""
    return candidate if remainder and candidate and line.has(candidate) else None


def fit(line: CommandLine, remedy: str) -> str | None:
    """Return what a line accepts: the remedy, or one with equivalent settings, or None."""
    pairs = [word.partition("=") for word in remedy.split()]
    similar = " ".join(f"{equivalent_setting(line, k) or k}{is_set}{v}" for k, is_set, v in pairs)
    return next((words for words in (remedy, similar) if _accepts(line, words)), None)


def _accepts(line: CommandLine, remedy: str) -> bool:
    words = remedy.split()
    if any(line.lacks(word.partition("=")[0].split(".")[0]) for word in words):
        return False
    return _composes([*line.words, *words], line.config_dirs)


def refused_overrides(
    error: Exception, words: Sequence[str], config_dirs: Sequence[str]
) -> RefusedOverrides:
    """Return each override that the config refuses, in order, with its error.

    There are none for a sweep, a single override and an override that cannot be parsed. If an
    option does not exist, the config may refuse other overrides only because they belong to
    it. Then settings of other libraries are returned, but no other settings.

    Args:
        error: the error of composing the config.
        words: words of the command line.
        config_dirs: directories of the user's own configs.
    """
    overrides = only_overrides(words)
    sweep = {"-m", "--multirun"} & {*words}
    if isinstance(error, OverrideParseException) or sweep or len(overrides) < 2:
        return []
    try:
        _, refused = filter_overrides(lambda texts: compose_config(texts, config_dirs), overrides)
    except (HydraException, OmegaConfBaseException, ValueError):
        return []  # another fault, such as a missing directory
    if any("Could not find" in str(fault) for _, fault in refused):
        refused = [
            (word, fault)
            for word, fault in refused
            if "Could not find" in str(fault) or _is_foreign(word.partition("=")[0])
        ]
    return sorted(refused, key=lambda entry: overrides.index(entry[0]))


def _is_foreign(key: str) -> bool:
    return bool(known_key(key)) and not (config_directory() / key.split(".")[0]).is_dir()


def corrected_line(
    words: Sequence[str],
    refused: Mapping[str, str],
    config_dirs: Sequence[str],
    fit: Callable[[str], str | None],
) -> list[str]:
    """Return the whole line in our words, if the messages have our name for each refused word.

    The result is the last line of a message, or empty if no line is sure. Words whose value has
    another meaning here are left out and named.

    Args:
        words: words of the command line.
        refused: the message on each refused word.
        config_dirs: directories of the user's own configs.
        fit: returns overrides in the form that the choices of this line accept.
    """
    typed = typed_words(words)
    ours: dict[str, str | None] = {}
    for word in refused:
        key, _, value = word.partition("=")
        ours[word] = fit(translate(key, value) or _option(key.lstrip("+"), value) or word)
    known = {word: new for word, new in ours.items() if new and new in refused[word]}
    # Settings of another unit here, or of no equivalent, are left to the recipe.
    dropped = [word for word in typed if word in refused.keys() - known.keys()]
    new_words = dict.fromkeys(dropped, "") | known
    line = [w for word in typed for w in (new_words[word].split() if word in new_words else [word])]
    if line == typed:
        return []  # it would be refused again
    remains = known or any(word not in refused for word in typed)
    has_name = all("is not in the config; here it is " in refused[word] for word in dropped)
    if len(typed) < 2 or not remains or not has_name:
        return []
    needless = "here it is nothing to set"
    unset = [word.partition("=")[0] for word in dropped if needless not in refused[word]]
    without = f" without {', '.join(unset)}" if unset else ""
    if not _composes(only_overrides(line), config_dirs):
        return []
    return [f"the whole line{without}: {whole_line(line)}"]


def _composes(words: Sequence[str], config_dirs: Sequence[str]) -> bool:
    try:
        compose_config(words, config_dirs)
    except (HydraException, OmegaConfBaseException, ValueError):
        return False
    return True
