"""Messages for errors of Hydra and OmegaConf: the fault, its path and the nearest name."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path

import yaml  # type: ignore[import-untyped]
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException, OverrideParseException
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from rlcomp.advice.foreign_options import our_option, plugin_hint
from rlcomp.advice.missing_multirun import as_text, is_sentence, missing_multirun, several_values
from rlcomp.advice.translation import corrected_line, fit, refused_overrides
from rlcomp.advice.unknown_key import keys_below, unknown_key, unmatched_group
from rlcomp.advice.user_option import own_option
from rlcomp.config.compose import CommandLine, command_line, compose_config
from rlcomp.config.options import config_directory, options_of
from rlcomp.config.overrides import only_overrides, shell_word, typed_words, whole_line
from rlcomp.config.reader import unset_variable
from rlcomp.errors import nearest


def explain_overrides(error: Exception, words: Sequence[str], config_dirs: Sequence[str]) -> str:
    """Return messages on all overrides that a config refuses, and the corrected line if it is sure.

    Args:
        error: the error of composing the config.
        words: words of the command line.
        config_dirs: directories of the user's own configs.
    """
    line = command_line(words, config_dirs)

    def message(error: Exception) -> str:
        if isinstance(error, OverrideParseException):
            return _unparsable(error, config_dirs, words)
        return explain_composition(
            error, config_dirs, lambda parent: keys_below(line.config, parent), line
        )

    errors = refused_overrides(error, words, config_dirs)
    refused = {word: message(word_error) for word, word_error in errors}
    lines = [*dict.fromkeys(refused.values())] if refused else [message(error)]
    if len(refused) == 1 and is_sentence(lines[0]):
        quoted = [as_text(word) if word in refused else word for word in typed_words(words)]
        return "\n".join([*lines, f"the whole line: {whole_line(quoted)}"])
    # A single word may be a list or a text as well: then no line is sure.
    sure = len(refused) > 1 or (refused and "; " not in lines[0])
    if sure and all(missing_multirun(str(word_error)) for _, word_error in errors):
        return "\n".join([*lines, f"the whole line: {whole_line(['-m', *typed_words(words)])}"])
    return "\n".join([*lines, *corrected_line(words, refused, config_dirs, partial(fit, line))])


def check_line(words: Sequence[str], config_dirs: Sequence[str]) -> list[str]:
    """Return the lines of a message on a corrected command line: the line, or its other mistakes.

    A sweep is not checked.

    Args:
        words: words of the command line.
        config_dirs: directories of the user's own configs.
    """
    try:
        if not {"-m", "--multirun"} & {*words}:
            compose_config(only_overrides(words), config_dirs)
    except (HydraException, OmegaConfBaseException) as error:
        return explain_overrides(error, words, config_dirs).splitlines()
    return [f"the whole line: {whole_line(words)}"]


def explain_composition(
    error: Exception,
    directories: Sequence[str],
    keys: Callable[[str], Iterable[str]],
    line: CommandLine | None = None,
) -> str:
    """Return one message for an error of Hydra or OmegaConf.

    Args:
        error: raised while a config is composed.
        directories: directories of the user's own configs.
        keys: returns the keys of the config below a path.
        line: the choices of the command line; None: unknown.
    """
    if isinstance(error, OverrideParseException):
        return _unparsable(error, directories)
    text = str(error) if error.__cause__ is None else f"{error}\n{error.__cause__}"
    lines = [each.strip() for each in text.splitlines() if each.strip()]
    key = next((each.split()[-1] for each in lines if "full_key:" in each), None)
    if unset := unset_variable(text):
        # Hydra's own keys that the config sets: hydra.run.dir is ${directory}.
        return f"{'directory' if str(key).startswith('hydra.') else key}: {unset}"
    if word := missing_multirun(text):
        return several_values(word, line)
    message = _no_language_model(text) or _no_option(text, directories, line)
    if message := message or _nothing_to_delete(text, keys):
        return message
    if key and "is not in struct" in text:
        return unknown_key(key, text, keys, line)
    if message := unmatched_group(text, line):
        return message
    noise = (
        *("full_key:", "object_type=", "reference_", "See https", "Config search", "provider="),
        "To append to your default list",  # it would set a value that nothing reads
    )
    return "\n".join(dict.fromkeys(each for each in lines if not each.startswith(noise)))


def _no_option(text: str, directories: Sequence[str], line: CommandLine | None) -> str | None:
    """Return a message that a group has no such option; None for another error."""
    missing = re.search(r"Could not find '([^']+)'", text)
    if missing is None:
        return None
    group, _, option = missing.group(1).rpartition("/")
    if message := plugin_hint(group, option):
        return message
    if translation := own_option(group, option, directories, line) or our_option(group, option):
        return f"{group}={option}: there is no such option; here: {translation}"
    options = options_of(group, [config_directory(), *map(Path, directories)])
    return f"{group}={option}: there is no such option{nearest(option, options)}"


def _nothing_to_delete(text: str, keys: Callable[[str], Iterable[str]]) -> str | None:
    """Return a message that a deletion has nothing to delete; None for another error."""
    if absent := re.search(r"Could not delete '([^']+)'. No match in the defaults", text):
        return f"~{absent[1]}: this line has no {absent[1]} to delete; leave ~{absent[1]} out"
    deleted = re.search(r"Could not delete from config. '([^']+)' does not exist", text)
    return _not_deleted(deleted[1], keys) if deleted else None


def _unparsable(
    error: OverrideParseException, directories: Sequence[str], words: Sequence[str] = ()
) -> str:
    """Return a message on a word that is no override: perhaps its group is missing."""
    word = str(error.override)
    places = [config_directory(), *map(Path, directories)]
    groups = sorted({f.parent.name for place in places for f in place.glob(f"*/{word}.yaml")})
    if groups and re.fullmatch(r"\w+", word):
        chosen = "recipe" if "recipe" in groups else groups[0]
        return f"{word}: of what? options are chosen by group=option, such as {chosen}={word}"
    if word.endswith(","):
        before, joined, after = _join_values(word, typed_words(words))
        if joined.endswith(","):
            plain = joined.rstrip(",")
            remedy, line = f"leave that out: {shell_word(plain)}", [*before, plain, *after]
        else:
            remedy, line = "a sweep has no spaces", ["-m", *before, joined, *after]
        return f"{word}: it ends in a comma; {remedy}\nthe whole line: {whole_line(line)}"
    if word.endswith((".yaml", ".yml")):
        return (
            f"{word}: a file is no setting; put it into FOLDER/experiment/, with the first line "
            f"'# @package _global_', and write -cd FOLDER experiment={Path(word).stem}"
        )
    if "=" not in word:
        return _no_setting(word, words)
    if (quoted := _quote_value(word)) is not None:
        return f"{word}: the value needs quotes, and the word as well: {shell_word(quoted)}"
    return f"{word}: cannot be read; a quote or a bracket is not closed or is misplaced"


def _not_deleted(path: str, keys: Callable[[str], Iterable[str]]) -> str:
    """Return a message that the path of a deletion (``~path``) does not exist."""
    parent, _, name = path.rpartition(".")
    while parent and not (beside := [*keys(parent)]):
        parent, _, name = parent.rpartition(".")
    beside = [*keys(parent)] if parent or "." not in path else [*keys("")]
    where = f"{parent}." if parent else ""
    known = nearest(name, [key for key in beside if not key.startswith("_")])
    return f"~{path}: there is no {where}{name} to delete{known}"


# Our program for each command of other libraries.
_PROGRAMS = {
    **dict.fromkeys(("train", "run", "fit", "launch", "start", "sweep", "resume"), "rlcomp"),
    **dict.fromkeys(("eval", "evaluate", "validate", "benchmark"), "rlcomp-evaluate"),
    **dict.fromkeys(("sample", "generate", "chat", "infer", "inference"), "rlcomp-sample"),
    **dict.fromkeys(("export", "merge", "convert"), "rlcomp-export"),
    **dict.fromkeys(("report", "plot"), "rlcomp-report"),
    **dict.fromkeys(("describe", "show", "info", "list"), "rlcomp-describe"),
    **dict.fromkeys(("audit", "check"), "rlcomp-audit"),
    "replay": "rlcomp-replay",
}


def _no_setting(word: str, words: Sequence[str]) -> str:
    """Return a message on a word that is no setting, perhaps a command of another program."""
    program = _PROGRAMS.get(word.lower())
    if program is None:
        return (
            f"{word}: cannot be read: settings are written key=value, options group=option "
            "(rlcomp --help lists them)"
        )
    if program != "rlcomp":
        return f"{word}: rlcomp has no commands; use the program {program}"
    remaining = [other for other in typed_words(words) if other != word]
    return f"{word}: rlcomp has no commands, it trains; leave {word} out: {whole_line(remaining)}"


def _join_values(word: str, words: Sequence[str]) -> tuple[list[str], str, list[str]]:
    """Join the values of a sweep that the shell split; return the words before and after, too."""
    index = words.index(word) if word in words else len(words)
    remaining = [*words[index + 1 :]]
    while (
        remaining
        and word.endswith(",")
        and "=" not in remaining[0]
        and not remaining[0].startswith("-")
    ):
        word += remaining.pop(0)
    return [*words[:index]], word, remaining


def _quote_value(word: str) -> str | None:
    """Return the override with its value in quotes; None if quotes do not make it an override."""
    key, _, value = word.partition("=")
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    quoted = f'{key}="{escaped}"'
    try:
        override = OverridesParser.create().parse_override(quoted)
    except OverrideParseException:
        return None
    return None if value[:1] in tuple("'\"[{") or override.is_delete() else quoted


def _no_language_model(text: str) -> str | None:
    part = re.search(r"Could not override '(model|tokenizer|adapter)'\.", text)
    return part and (
        f"this recipe has no {part[1]}: base=DIR, model, tokenizer and adapter are of recipes with "
        "a language model"
    )


def unreadable_yaml(error: Exception, directories: Sequence[str]) -> str:
    """Return a message on the yaml of the user that cannot be read.

    Args:
        error: the error of reading it.
        directories: directories of the user's own configs.
    """
    for file in sorted(path for folder in directories for path in Path(folder).rglob("*.yaml")):
        try:
            OmegaConf.load(file)
        except (RecursionError, yaml.YAMLError, UnicodeDecodeError, OSError) as fault:
            if type(fault) is type(error):
                circular = "an alias (*name) refers to a node that contains it"
                text = " ".join(str(fault).split())
                return f"{file}: {circular if isinstance(fault, RecursionError) else text}"
    return f"a yaml cannot be read: {' '.join(str(error).split())}"
