"""Messages for several values without ``-m``: a sweep, a list or a text."""

from __future__ import annotations

import re

from omegaconf import ListConfig, OmegaConf

from rlcomp.config.compose import CommandLine
from rlcomp.config.options import COMBINED, NO_SWEEP, config_directory
from rlcomp.config.overrides import shell_word


def missing_multirun(text: str) -> str | None:
    """Return the override of several values in an error of Hydra; None for another error."""
    match = re.search(r"(?:argument|Sweep parameters) '(.*)'(?: requires|$)", text, re.MULTILINE)
    return match[1] if match else None


def several_values(word: str, line: CommandLine | None) -> str:
    """Return the message on several values of one setting, by the kind of its value.

    Args:
        word: the override, ``seed=0,1``.
        line: the choices of the command line; None: unknown.
    """
    key, _, values = word.partition("=")
    group = key.lstrip("+").partition("@")[0]
    listed, text = shell_word(f"{key}=[{values}]"), shell_word(as_text(word))
    ways = {
        "sweep": f"several values are a sweep, rlcomp -m {shell_word(word)}",
        "list": f"a list has brackets, {listed}",
        "text": f"a text has quotes, {text}",
    }
    if group in NO_SWEEP:
        single = " or ".join(f"{key}={value}" for value in values.split(","))
        return f"{word}: a run has one {key}; write {single}"
    value = OmegaConf.select(line.config, key) if line and line.has(key) else None
    decimal = values.replace(",", ".")
    if isinstance(value, float) and re.fullmatch(r"-?0\.\d+(e-?\d+)?", decimal, re.IGNORECASE):
        return f"{word}: a decimal has a point, {key}={decimal}; {ways['sweep']}"
    kinds = ["sweep", *_kinds(group, value)]
    if "text" in kinds and re.search(r"\w \w", values):  # a sentence
        kinds = ["text"]
    return f"{word}: {'; '.join(ways[kind] for kind in kinds)}"


def as_text(word: str) -> str:
    """Return an override with its value in quotes."""
    key, _, values = word.partition("=")
    return f'{key}="{values}"'


def is_sentence(message: str) -> bool:
    """Return whether a message of :func:`several_values` takes the values for one text."""
    return ": a text has quotes, " in message


def _kinds(group: str, value: object) -> list[str]:
    """Return the possible readings of several values besides a sweep: "list", "text"."""
    if (config_directory() / group).is_dir():
        return ["list"] if group in COMBINED else []
    if isinstance(value, (bool, int, float)):
        return []
    if isinstance(value, ListConfig):
        return ["list"]
    return ["list", "text"]
