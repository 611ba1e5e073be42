"""Messages for what Hydra and OmegaConf refuse: what, where and the nearest name."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import yaml  # type: ignore[import-untyped]
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException, OverrideParseException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from rlcomp.errors import ConfigError, in_one_line, nearest
from rlcomp.wiring.compose import compose_config
from rlcomp.wiring.options import config_directory
from rlcomp.wiring.other_words import option_here, word_here
from rlcomp.wiring.reader import unset_variable
from rlcomp.wiring.renamed import new_name
from rlcomp.wiring.translated import (
    all_refused,
    corrected,
    in_our_words,
    in_shell,
    overrides_in,
    whole_line,
)

# Options in a message.
_SHOWN = 5


def compose_or_explain(overrides: Sequence[str], config_dirs: Sequence[str] = ()) -> DictConfig:
    """The config of overrides.

    Args:
        overrides: as on the command line.
        config_dirs: directories of the user's own configs.

    Raises:
        ConfigError: what Hydra refuses: what, where and the nearest name.

    Examples:
        >>> compose_or_explain(["learning_rate=1e-5"])
        Traceback (most recent call last):
            ...
        rlcomp.errors.ConfigError: learning_rate is not in the config; here it is \
learner.optimizer.lr=1e-5
    """
    try:
        return compose_config(overrides, config_dirs)
    except (HydraException, OmegaConfBaseException) as error:
        raise ConfigError(explained(error, overrides, config_dirs)) from None  # it says all
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(unreadable_yaml(error, config_dirs)) from None
    except ValueError as error:  # Hydra's own, of overrides that cannot mean anything
        raise ConfigError(f"{' '.join(overrides)}: {in_one_line(error)}") from None


def explained(error: Exception, words: Sequence[str], config_dirs: Sequence[str]) -> str:
    """One message for an error of Hydra or OmegaConf.

    Args:
        error: what composing ended with.
        words: of the command line.
        config_dirs: directories of the user's own configs.
    """

    def told(one: Exception) -> str:
        if isinstance(one, OverrideParseException):
            return _unread(one, config_dirs, words)
        return explain_composition(
            one, config_dirs, lambda parent: _keys(parent, words, config_dirs)
        )

    refused = {word: told(one) for word, one in all_refused(error, words, config_dirs)}
    lines = dict.fromkeys(refused.values()) if refused else [told(error)]
    return "\n".join([*lines, *corrected(words, refused, config_dirs)])


def as_corrected(words: Sequence[str], config_dirs: Sequence[str]) -> list[str]:
    """A corrected command line, or what else is wrong with it.

    Args:
        words: of the command line.
        config_dirs: directories of the user's own configs.
    """
    try:
        if not {"-m", "--multirun"} & {*words}:
            compose_config(overrides_in(words), config_dirs)
    except (HydraException, OmegaConfBaseException) as error:
        return explained(error, words, config_dirs).splitlines()
    return [f"the whole line: {whole_line(words)}"]


def _keys(parent: str, words: Sequence[str], config_dirs: Sequence[str]) -> list[str]:
    """The keys beside a mistyped one, in the config that the rest of the words give."""
    sound = [text for text in words if "=" in text and not text.startswith("-")]
    choices = [text for text in sound if "." not in text.split("=")[0] and "," not in text]
    while choices:
        try:
            return keys_below(compose_config(choices, config_dirs), parent)
        except (HydraException, OmegaConfBaseException):
            choices.pop()
    return keys_below(compose_config([], config_dirs), parent)


def explain_composition(
    error: Exception, directories: Sequence[str], keys: Callable[[str], Iterable[str]]
) -> str:
    """One message for an error of Hydra or OmegaConf.

    Args:
        error: what was raised.
        directories: of the user's own configs.
        keys: gives the keys of the config below a path.
    """
    if isinstance(error, OverrideParseException):
        return _unread(error, directories)
    text = str(error) if error.__cause__ is None else f"{error}\n{error.__cause__}"
    key = next((line.split()[-1] for line in text.splitlines() if "full_key:" in line), None)
    if unset := unset_variable(text):
        # Hydra's own keys that the config sets: hydra.run.dir is ${directory}.
        return f"{'directory' if str(key).startswith('hydra.') else key}: {unset}"
    if sweep := re.search(
        r"(?:argument|Sweep parameters) '(.*)'(?: requires|$)", text, re.MULTILINE
    ):
        key = sweep[1].partition("=")[0]
        return (
            f"{sweep[1]}: several values are a sweep, rlcomp -m ...; a list has brackets, "
            f"{key}=[...]; a text has quotes, '{key}=\"...\"'"
        )
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if lacks := _no_language_model(text):
        return lacks
    missing = re.search(r"Could not find '([^']+)'", text)
    if missing:
        group, _, option = missing.group(1).rpartition("/")
        here = option_here(group, option)
        known = f"; here: {here}" if here else nearest(option, _options(group, directories))
        return f"{group}={option}: there is no such option{known}"
    if key and "is not in struct" in text:
        return _unknown_key(key, text, keys)
    noise = (
        *("full_key:", "object_type=", "reference_", "See https", "Config search", "provider="),
        "To append to your default list",  # which would set what nothing reads
    )
    return "\n".join(dict.fromkeys(line for line in lines if not line.startswith(noise)))


def _unread(
    error: OverrideParseException, directories: Sequence[str], words: Sequence[str] = ()
) -> str:
    """What is wrong with a word that is no override: perhaps its group was left out."""
    word = str(error.override)
    places = [config_directory(), *map(Path, directories)]
    groups = sorted({f.parent.name for place in places for f in place.glob(f"*/{word}.yaml")})
    if groups and re.fullmatch(r"\w+", word):
        chosen = "recipe" if "recipe" in groups else groups[0]
        return f"{word}: of what? options are chosen by group=option, such as {chosen}={word}"
    if word.endswith(","):
        return (
            f"{word}: it ends in a comma; a sweep has no spaces: rlcomp -m {_joined(word, words)}"
        )
    if word.endswith((".yaml", ".yml")):
        return (
            f"{word}: a file is no setting; put it into FOLDER/experiment/, with the first line "
            f"'# @package _global_', and write -cd FOLDER experiment={Path(word).stem}"
        )
    if "=" not in word:
        return f"{word}: cannot be read: settings are written key=value"
    if (quoted := _quoted(word)) is not None:
        return f"{word}: the value needs quotes, and the word as well: {in_shell(quoted)}"
    return f"{word}: cannot be read; a quote or a bracket is not closed, or stands where none may"


def _joined(word: str, words: Sequence[str]) -> str:
    """The values of a sweep that the shell took apart."""
    rest = [*words[words.index(word) + 1 :]] if word in words else []
    while rest and word.endswith(",") and "=" not in rest[0] and not rest[0].startswith("-"):
        word += rest.pop(0)
    return f"{word}..." if word.endswith(",") else word


def _quoted(word: str) -> str | None:
    """The override with its value in quotes; None where it could not be read so either."""
    key, _, value = word.partition("=")
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    quoted = f'{key}="{escaped}"'
    try:
        parsed = OverridesParser.create().parse_override(quoted)
    except OverrideParseException:
        return None
    return None if value[:1] in tuple("'\"[{") or parsed.is_delete() else quoted


def _unknown_key(key: str, text: str, keys: Callable[[str], Iterable[str]]) -> str:
    parent, _, name = key.rpartition(".")
    new = new_name(name)
    if new is not None:
        return f"{key} is not in the config: since 0.2 it is {parent + '.' if parent else ''}{new}"
    if here := _as_elsewhere(key, text, keys("")):
        return here
    if name in (beside := [*keys(parent)]):
        return (
            f"{key} is a choice of parts whose settings stand elsewhere; "
            f"rlcomp ... {key}=OPTION --cfg job shows where"
        )
    group = key.split(".")[0]
    if having := _options_with(key):
        more = ", …" if len(having) > _SHOWN else ""
        return f"{key} is not in the config; it is a setting of {', '.join(having[:_SHOWN])}{more}"
    if parent and not beside and (config_directory() / group).is_dir():
        return (
            f"{key} is not in the config: as {group} is chosen, it has no settings; choose another "
            f"{group}=OPTION (rlcomp help {group})"
        )
    known = f"{key} is not in the config{nearest(name, beside)}"
    if group == "phases" and parent:
        return f"{known}; phases are counted in steps: {parent}.steps=..."
    # A part takes what it declares, whatever is added.
    of_a_part = bool(beside) and (config_directory() / group).is_dir()
    return known if of_a_part else f"{known}; a + before it adds a new key"


def _options_with(key: str) -> list[str]:
    """The options of a group, ``task=file``, whose yaml sets this key."""
    group, _, name = key.rpartition(".")
    group = group.replace(".", "/")
    files = sorted((config_directory() / group).glob("*.yaml")) if group else []
    options = {file.stem: OmegaConf.load(file) for file in files}
    return [f"{group}={option}" for option, own in options.items() if {"_target_", name} <= {*own}]


def _no_language_model(text: str) -> str | None:
    part = re.search(r"Could not override '(model|tokenizer|adapter)'\.", text)
    return part and (
        f"this recipe has no {part[1]}: base=DIR, model, tokenizer and adapter are of recipes with "
        "a language model"
    )


def _as_elsewhere(key: str, text: str, own: Iterable[str]) -> str | None:
    """What another library's option is called here; below a key of ours only what is below it."""
    whole = re.search(r"Could not override '([^']+)'.*\n.*use \+\S+?=(.*)", text)
    root = key.split(".")[0]
    given = whole[1] if whole and (root not in own or root == key) else key
    here = word_here(given)
    if not here or (root in own and not here.startswith(f"{root}.") and not here.endswith(given)):
        return None
    told = in_our_words(given, whole[2]) if whole else here
    return f"{given} is not in the config; here it is {told}"


def unreadable_yaml(error: Exception, directories: Sequence[str]) -> str:
    """Which of the user's own yamls cannot be read, and why.

    Args:
        error: what reading one of them ended with, in whatever words.
        directories: of the user's own configs.
    """
    for file in sorted(path for place in directories for path in Path(place).rglob("*.yaml")):
        try:
            OmegaConf.load(file)
        except (RecursionError, yaml.YAMLError, UnicodeDecodeError, OSError) as fault:
            told = "an alias (*name) stands for what it is a part of"
            told = told if isinstance(fault, RecursionError) else " ".join(str(fault).split())
            if type(fault) is type(error):
                return f"{file}: {told}"
    return f"a yaml cannot be read: {' '.join(str(error).split())}"


def _options(group: str, directories: Sequence[str]) -> list[str]:
    """The options of a group, of ours and of the user's config directories."""
    places = [config_directory(), *map(Path, directories)]
    return [file.stem for place in places for file in (place / group).glob("*.yaml")]


def keys_below(config: DictConfig, parent: str) -> list[str]:
    """The keys of a config below a path; groups too where that is the root."""
    node = OmegaConf.select(config, parent) if parent else config
    groups = [entry.name for entry in config_directory().iterdir() if entry.is_dir()]
    below = [str(key) for key in node] if isinstance(node, DictConfig) and node else []
    return below + (groups if not parent else [])
