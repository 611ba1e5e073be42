"""Messages on a class, a file or a folder in place of the name of an option."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

from rlcomp.config.compose import CommandLine
from rlcomp.config.options import config_directory, options_of, usual_option
from rlcomp.errors import as_dotted

# Overrides that read a folder, by group.
_FOLDERS = {
    "model": "base={}",
    "base": "base={}",
    "tokenizer": "tokenizer=pretrained tokenizer.path={}",
    "reference": "reference=pretrained reference.path={}",
    "task": "task=hub task.name={}",
}
# Overrides that read a file, by group; and the suffixes of such files.
_FILES = {"task": "task=file task.path={}", "prompt": "prompt=chat prompt.template={}"}
_FILE_SUFFIXES = (".jsonl", ".json", ".parquet", ".csv", ".jsonl.gz", ".jinja", ".txt")
# Groups for which a class of the user is no remedy: their options are functions or patches.
_WITHOUT_CLASSES = ("reward", "recipe", "experiment", "suite", "measure")


def own_option(
    group: str, option: str, directories: Sequence[str], line: CommandLine | None
) -> str | None:
    """Return what to write for a class, a file, a folder, or a yaml outside of its group.

    None if the option is none of these.

    Args:
        group: group in Hydra's error; with slashes it may be part of a path.
        option: the missing option.
        directories: directories of the user's own configs.
        line: the choices of the command line; None: unknown.
    """
    root, _, remainder = group.partition("/")
    path = f"{remainder}/{option}" if remainder else option
    known = (config_directory() / group).is_dir()
    if path.endswith(_FILE_SUFFIXES) and root in _FILES:
        return _FILES[root].format(path)
    folder = os.path.isdir(path)
    on_hub = "/" in path and not known and root != "model"  # model: our_option has it
    if root in _FOLDERS and (on_hub or folder) and not (folder and root == "task"):
        return _FOLDERS[root].format(path)
    if moved := misplaced_yaml(group, option, directories):
        return moved
    target = as_dotted(option) or option
    if known and group not in _WITHOUT_CLASSES and re.fullmatch(r"[A-Za-z_]\w*(\.\w+)+", target):
        return _choice_of_class(group, target, line)
    return None


def misplaced_yaml(group: str, option: str, directories: Sequence[str]) -> str | None:
    """Return where to move a yaml that lies outside of its group's folder; None: there is none."""
    for directory in directories:
        for file in sorted(Path(directory).glob(f"**/{option}.y*ml")):
            target = Path(directory, group, f"{option}.yaml")
            if file != target:
                return f"{file} is in no group of this name: move it to {target}"
    return None


def _choice_of_class(group: str, target: str, line: CommandLine | None) -> str:
    """Return how the user's class is chosen: by a yaml, or in place of a bare option."""
    choices = [*(line.choices if line else ())]
    choice = next((key for key in choices if key.partition("@")[0] == group), group)
    key = group if group in choices else choice
    path = (key.partition("@")[2] or key).replace("/", ".")
    name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", target.rpartition(".")[2]).lower()
    yaml = f"FOLDER/{group}/{name}.yaml with the line '_target_: {target}', and -cd FOLDER"
    if base := _without_settings(group):
        direct = f"{key}={base} {path}._target_={target}"
        return f"a class of yours is {direct}; or {yaml} {key}={name}"
    return f"a class of yours is {yaml} {key}={name}"


def _without_settings(group: str) -> str | None:
    """Return an option of a group that sets nothing but its class, the usual one if possible."""
    usual = usual_option(group)
    options = options_of(group, [config_directory()])
    plain = [name for name, file in options.items() if _is_bare(file)]
    return usual if usual in plain else next(iter(plain), None)


def _is_bare(file: Path) -> bool:
    text = file.read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return len(lines) == 1 and lines[0].startswith("_target_:")
