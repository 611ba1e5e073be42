"""Messages for several values without ``-m``: a sweep, a list or a text is meant."""

from __future__ import annotations

import re

from omegaconf import ListConfig, OmegaConf

from rlcomp.config.compose import CommandLine
from rlcomp.config.options import NO_SWEEP, TOGETHER, config_directory
from rlcomp.config.overrides import shell_word


def unswept(text: str) -> str | None:
    """Return the override with several values that Hydra refused; None for another error."""
    match = re.search(r"(?:argument|Sweep parameters) '(.*)'(?: requires|$)", text, re.MULTILINE)
    return match[1] if match else None


def several(word: str, line: CommandLine | None) -> str:
    """Return what to write for several values of one setting, by the kind of its value.

    Args:
        word: ``seed=0,1``.
        line: the choices of the command line, where it is known.
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
        one = " or ".join(f"{key}={value}" for value in values.split(","))
        return f"{word}: a run has one {key}; write {one}"
    value = OmegaConf.select(line.config, key) if line and line.has(key) else None
    decimal = values.replace(",", ".")
    if isinstance(value, float) and re.fullmatch(r"-?0\.\d+(e-?\d+)?", decimal, re.IGNORECASE):
        return f"{word}: a decimal has a point, {key}={decimal}; {ways['sweep']}"
    kinds = ["sweep", *_kinds(group, value)]
    if "text" in kinds and re.search(r"\w \w", values):  # a sentence
        kinds = ["text"]
    return f"{word}: {'; '.join(ways[kind] for kind in kinds)}"


def as_text(word: str) -> str:
    """Return an override with its value in quotes, so that it is one text."""
    key, _, values = word.partition("=")
    return f'{key}="{values}"'


def is_sentence(told: str) -> bool:
    """Return whether a message of :func:`several` is sure that one text is meant."""
    return ": a text has quotes, " in told


def _kinds(group: str, value: object) -> list[str]:
    """Return the other readings of several values than a sweep: "list", "text"."""
    if (config_directory() / group).is_dir():
        return ["list"] if group in TOGETHER else []
    if isinstance(value, (bool, int, float)):
        return []
    if isinstance(value, ListConfig):
        return ["list"]
    return ["list", "text"]
