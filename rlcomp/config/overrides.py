"""Overrides of a command line: ``base=DIR``, quotes for a shell, and those a config refuses."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence

from hydra.errors import HydraException
from omegaconf import DictConfig
from omegaconf.errors import OmegaConfBaseException

RefusedOverrides = list[tuple[str, Exception]]
_ERRORS = (HydraException, OmegaConfBaseException)
# Options that read `base`.
_CHOICES = ("model=pretrained", "tokenizer=pretrained")


def with_base(words: Sequence[str]) -> list[str]:
    """Return words in which ``base=DIR`` chooses model and tokenizer, unless they are chosen.

    Values that begin with ``~/`` are expanded (:func:`expand_home`).

    Examples:
        >>> with_base(["recipe=rloo", "base=runs/a"])
        ['recipe=rloo', 'base=runs/a', 'model=pretrained', 'tokenizer=pretrained']
        >>> with_base(["base=runs/a", "model=soup"])
        ['base=runs/a', 'model=soup', 'tokenizer=pretrained']
        >>> with_base(["base=null"])
        ['base=null']
    """
    words = [expand_home(word) for word in words]
    pairs = [word.partition("=")[::2] for word in words]
    keys = [key.lstrip("+") for key, _ in pairs]
    values = [value for key, (_, value) in zip(keys, pairs, strict=True) if key == "base"]
    if not values or values[-1] in ("", "null"):
        return [*words]
    return [*words, *(choice for choice in _CHOICES if choice.partition("=")[0] not in keys)]


def expand_home(word: str) -> str:
    """Expand the home directory at the beginning of an override's value, ``path=~/a``.

    A shell does not change it, and Hydra cannot read it.

    Examples:
        >>> expand_home("task.path=~/a") == f"task.path={os.path.expanduser('~')}/a"
        True
        >>> expand_home("~phases.rl"), expand_home("a='~/b'")
        ('~phases.rl', "a='~/b'")
    """
    key, _, value = word.partition("=")
    return f"{key}={os.path.expanduser(value)}" if value.startswith("~/") else word


def typed_words(words: Sequence[str]) -> list[str]:
    """Return a command line without the choices that :func:`with_base` adds."""
    typed = [word for word in words if word not in _CHOICES]
    return typed if {*with_base(typed)} == {*words} else [*words]


def only_overrides(words: Sequence[str]) -> list[str]:
    """Return the words of a command line that set something."""
    return [word for word in words if "=" in word and not word.startswith("-")]


def whole_line(words: Sequence[str]) -> str:
    """Return a command line of ``rlcomp`` for a shell, with each word once."""
    return " ".join(["rlcomp", *map(shell_word, dict.fromkeys(words))])


def shell_word(word: str) -> str:
    r"""Return a word for a shell, in quotes if it needs them.

    Examples:
        >>> print(shell_word("seed=0,1"), shell_word('directory="my runs"'), shell_word("a=it's"))
        seed=0,1 'directory="my runs"' "a=it's"
    """
    if re.fullmatch(r"[\w@%+=:,./~-]+", word):
        return word
    if "'" not in word:
        return f"'{word}'"
    escaped = re.sub(r'([\\"$`])', r"\\\1", word)
    return f'"{escaped}"'


def filter_overrides(
    compose: Callable[[list[str]], DictConfig], overrides: Sequence[str]
) -> tuple[DictConfig, RefusedOverrides]:
    """Compose a config without the overrides that Hydra or OmegaConf refuses.

    Args:
        compose: returns the config of a list of overrides.
        overrides: as on the command line.

    Returns:
        The config, and each refused override with its error.

    Raises:
        HydraException, OmegaConfBaseException: the error is not the fault of an override.
    """
    accepted = list(overrides)
    refused: RefusedOverrides = []
    while True:
        try:
            return compose(accepted), refused
        except _ERRORS as error:
            culprit = _culprit(compose, accepted, error)
            if culprit is None:
                raise
            accepted.remove(culprit)
            refused.append((culprit, error))


def _culprit(
    compose: Callable[[list[str]], DictConfig], overrides: Sequence[str], error: Exception
) -> str | None:
    """Return the override that an error names, or the last one whose removal changes the error."""
    for override in overrides:
        key = override.partition("=")[0].lstrip("+~")
        if f"'{key}'" in str(error) or override in str(error):
            return override
    for override in reversed(overrides):
        try:
            compose([other for other in overrides if other != override])
        except _ERRORS as other_error:
            if str(other_error) == str(error):
                continue
        return override
    return None
