"""Checks of the words of a command line that Hydra accepts, or refuses without naming them."""

from __future__ import annotations

import argparse
import difflib
import re
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

from hydra._internal.utils import get_args_parser
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override

from rlcomp.config.checks.values import SETTINGS
from rlcomp.config.choices import repeated_choices
from rlcomp.config.options import config_directory
from rlcomp.config.overrides import whole_line
from rlcomp.errors import RlcompWarning, UserError, nearest
from rlcomp.files.run_directory import check_links
from rlcomp.sweep.jobs import check_count, texts_of


def check_overrides(words: Sequence[str], places: Sequence[Path]) -> None:
    """Refuse overrides that Hydra accepts but that must be mistakes.

    Args:
        words: the overrides of a command line.
        places: the directories of configs: ours and the user's own.

    Raises:
        UserError: names the override and the remedy.
        ConfigError: the run's directory has links at places that a run writes to.
    """
    overrides = OverridesParser.create().parse_overrides(list(words))
    check_count(overrides)  # before they are listed
    for override in overrides:
        value = override.value()
        if override.key_or_group == "directory" and isinstance(value, str):
            check_links(Path(value))  # before Hydra writes into it
        if fault := _override_fault(override, places):
            raise UserError(f"{override.input_line}: {fault}")


def check_folders(directories: Sequence[str]) -> None:
    """Check that folders of configs (``-cd``) exist.

    Raises:
        UserError: a folder does not exist; the message names the folder, and similar ones.
    """
    for directory in directories:
        if not Path(directory).is_dir():
            raise UserError(f"-cd {directory}: there is no such folder{_configs_near(directory)}")


def _configs_near(directory: str) -> str:
    """Return a likely folder: one with a similar name, or with a group of options in it."""
    parent = Path(directory).parent
    folders = [entry for entry in parent.glob("[!._]*") if entry.is_dir()]
    names = [folder.name for folder in folders]
    if close := difflib.get_close_matches(Path(directory).name, names, n=1, cutoff=0.75):
        return f"; did you mean {parent / close[0]}?"
    groups = {entry.name for entry in config_directory().iterdir() if entry.is_dir()}
    config_folders = [f for f in folders if any(entry.name in groups for entry in f.glob("*"))]
    if config_folders:
        return f"; folders with configs: {', '.join(map(str, sorted(config_folders)[:3]))}"
    return "; create it: mkdir -p FOLDER/advantage, with NAME.yaml in it"


def check_sweep_directory(words: Sequence[str]) -> None:
    """Refuse to write the jobs of a sweep into the directory of a single run.

    Raises:
        UserError: names the directory, and a free one.
    """
    for word in words:
        key, _, path = word.partition("=")
        if key == "directory" and (Path(path) / "metrics.jsonl").is_file():
            raise UserError(
                f"{word}: this is the directory of a run; a sweep needs its own: "
                f"directory={path.rstrip('/')}_sweep"
            )


def warn_repeated(words: Sequence[str]) -> None:
    """Warn of choices that a command line makes twice: the last one counts."""
    for warning in repeated_choices(words):
        warnings.warn(warning, RlcompWarning, stacklevel=2)


def check_options(words: Sequence[str], unknown: Sequence[str], places: Sequence[Path]) -> None:
    """Refuse options that Hydra does not know, such as those of other libraries.

    Args:
        words: words of the command line.
        unknown: words that Hydra's parser does not know.
        places: the directories of configs.

    Raises:
        UserError: names the word and its replacement.
    """
    if not unknown:
        return
    messages, line = [], list[str]()
    queue = [*words]
    while queue:
        word = queue.pop(0)
        if not word.startswith("-") or word not in unknown:
            line.append(word)
            continue
        key, equals, value = word.lstrip("-").partition("=")
        if not equals and queue and not queue[0].startswith("-") and "=" not in queue[0]:
            value = queue.pop(0)
            while queue and re.fullmatch(r"[\w.-]+", queue[0]) and not queue[0].startswith("-"):
                value += f",{queue.pop(0)}"  # argparse takes several words, too
        message, ours = _explain_dashes(word, key, value, places)
        messages.append(message)
        # An empty word stands for an option without a sure replacement: then no line is shown.
        line += ours.split() or ([] if "here it is nothing to set" in message else [""])
    if any("," in word for word in line) and "-m" not in line:
        line = ["-m", *line]
    if len(line) > 1 and all(line):
        from rlcomp.advice.explain import check_line

        messages += check_line(line, [*map(str, places[1:])])
    raise UserError("\n".join(messages))


def _explain_dashes(word: str, key: str, value: str, places: Sequence[Path]) -> tuple[str, str]:
    """Return the message on an option with dashes, and its replacement if that is certain."""
    from rlcomp.advice.translation import in_our_words, translate

    if key in ("model", "tokenizer") and "/" in value:
        here = ours = f"base={value}"
    elif known := in_our_words(key, value or "true"):
        ours = translate(key, value or "true") or ""
        here = (
            known if ours or not re.fullmatch(r"[\w.]+", known) else f"{known}={value or 'VALUE'}"
        )
    elif _is_known_key(key, places):
        ours = f"{key}={value}" if value and "@" not in key else ""
        here = ours or key
    else:
        return (
            f"{word}: there is no such setting, and settings have no dashes: key=value; "
            "rlcomp --help lists them"
        ), ""
    return f"{word}: settings are written without dashes; here it is {here}", ours


def hydra_arguments(words: Sequence[str]) -> tuple[argparse.Namespace, list[str]]:
    """Return Hydra's own options of a command line, and the unknown words.

    Raises:
        UserError: an option has no value, or an unknown one.
    """
    parser = get_args_parser()

    def refuse(message: str) -> NoReturn:
        raise UserError(f"{message.removeprefix('argument ')}; rlcomp --hydra-help lists them")

    parser.error = refuse  # type: ignore[method-assign]
    return parser.parse_known_args(words)


# Hydra's options that exclude one another, with the value of each.
_MODES: dict[str, Callable[[argparse.Namespace], object]] = {
    "--run": lambda options: options.run,
    "--multirun": lambda options: options.multirun,
    "--cfg": lambda options: options.cfg,
    "--info": lambda options: options.info,
    "--shell-completion": lambda options: options.shell_completion,
}


def check_modes(words: Sequence[str], arguments: argparse.Namespace) -> None:
    """Refuse combinations of Hydra's options that exclude one another, or that need another one.

    Args:
        words: words of the command line.
        arguments: its options, as Hydra parses them.

    Raises:
        UserError: names the options, and a line that Hydra accepts.
    """
    modes = [name for name, is_there in _MODES.items() if is_there(arguments)]
    if arguments.experimental_rerun:
        raise UserError(
            "--experimental-rerun is not supported: repeat a run by its command line, or continue "
            "it by resume=PATH"
        )
    if len(modes) > 1:
        message = f"{' and '.join(modes)} exclude one another"
        option = next((name for name in ("--cfg", "--info") if name in modes), "")
        if not option:
            raise UserError(f"{message}; leave out {modes[0]}")
        line = [*_first_job(arguments.overrides), option, getattr(arguments, option[2:])]
        raise UserError(
            f"{message}; print the config of one job: "
            f"{whole_line([*line, *(['--resolve'] if arguments.resolve else [])])}"
        )
    for name, is_there in (("--resolve", arguments.resolve), ("--package", arguments.package)):
        if is_there and not arguments.cfg:
            raise UserError(f"{name} needs --cfg: {whole_line(['--cfg', 'job', *words])}")


def _first_job(words: Sequence[str]) -> list[str]:
    """Return overrides with the first value of each sweep."""
    overrides = OverridesParser.create().parse_overrides(list(words))
    return [
        (texts_of(override) or [str(override.input_line)])[0]
        if override.is_sweep_override()
        else str(override.input_line)
        for override in overrides
    ]


def check_no_config_file(words: Sequence[str]) -> None:
    """Refuse Hydra's options that name a config: rlcomp has only one config, with choices.

    Raises:
        UserError: names the word and its replacement.
    """
    for word in words:
        if word.partition("=")[0] in ("--config", "--config-name", "-cn", "--config-path", "-cp"):
            raise UserError(
                f"{word}: configs are chosen by name, recipe=NAME; a yaml of your own is "
                "FOLDER/experiment/NAME.yaml, with the first line '# @package _global_', and "
                "chosen by -cd FOLDER experiment=NAME"
            )


def _is_known_key(key: str, places: Sequence[Path]) -> bool:
    """Return whether a key is a setting of every run, or a group of options."""
    return key in SETTINGS or any((place / key.partition("@")[0]).is_dir() for place in places)


def _override_fault(override: Override, places: Sequence[Path]) -> str | None:
    key = override.key_or_group
    if override.is_delete():
        is_required = key in SETTINGS  # it has no default
        return f"every run has {key}; leave this out, or set {key}=..." if is_required else None
    if not key:
        return "there is no key before the ="
    if override.is_sweep_override():
        has_values = not override.is_discrete_sweep() or any(
            True for _ in override.sweep_iterator()
        )
        return None if has_values else "the sweep has no values"
    value = override.value()
    if isinstance(value, list) and key.rpartition(".")[2] in ("lr", "learning_rate"):
        from rlcomp.advice.foreign_options import our_name

        texts = str(override.input_line).partition("=")[2].strip("[]").replace(" ", "")
        return (
            "a learning rate must be a number; a sweep has no brackets, rlcomp -m "
            f"{our_name(key) if '.' not in key else key}={texts}"
        )
    if value == {} and not override.is_add():
        return (
            "this changes nothing, because Hydra merges dicts; delete an entry by its name, "
            f"~{key}.NAME"
        )
    options = [file.stem for place in places for file in (place / key).glob("*.yaml")]
    if options and not isinstance(value, (str, list, dict)):
        kind = "null" if value is None else f"of type {type(value).__name__}"
        is_weight = isinstance(value, (int, float)) and not isinstance(value, bool) and value > 0
        if key == "kl" and is_weight:
            return f"an option is a name; its weight is kl_controller.kl_coef={value}"
        hint = f"; {key}=none leaves it out" if "none" in options else nearest(str(value), options)
        return f"an option is a name, and this is {kind}: choose an option by name{hint}"
    return None
