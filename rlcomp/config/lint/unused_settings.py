"""Settings of a command line that nothing reads."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from omegaconf import DictConfig, OmegaConf

from rlcomp.config.command_line import CommandLine

# Read by the program itself, and told elsewhere.
_ALWAYS_READ = ("phases", "hydra", "tracker")


def check_unread(
    config: DictConfig,
    words: Sequence[str],
    choices: Mapping[str, str],
    config_dirs: Sequence[str] = (),
) -> list[str]:
    """Return a message on each value that belongs to no part and that nothing refers to.

    A recipe may set what only some of its options read (``kl_controller.kl_coef``, with
    ``kl=none``): that changes nothing, and is no mistake. On the command line it is one.

    Args:
        config: a whole one.
        words: overrides of the command line.
        choices: the option of each group.
        config_dirs: directories of the user's own configs.
    """
    line = CommandLine([], config_dirs, config, choices)
    reasons = [(word, line.lacks(_path(word)[0])) for word in unread(config, words)]
    return [
        f"{word}: nothing in this run reads it: {why or 'leave it out'}" for word, why in reasons
    ]


def unread(config: DictConfig, words: Sequence[str]) -> list[str]:
    """Return the words that set a value that nothing reads."""
    # Who adds a value of his own (+) knows that none was there.
    dotted = [word for word in words if re.match(r"(\+\+)?\w+(\.\w+)+=", word)]
    if not dotted:
        return []
    text = "\n".join([OmegaConf.to_yaml(config, resolve=False), *words])
    return [word for word in dotted if not _is_read(config, _path(word), text)]


def _path(word: str) -> list[str]:
    return word.lstrip("+").partition("=")[0].split(".")


def _is_read(config: DictConfig, path: Sequence[str], text: str) -> bool:
    root = path[0]
    if root in _ALWAYS_READ or re.search(rf"\${{[^}}]*\b{re.escape(root)}\b", text):
        return True
    node = OmegaConf.to_container(config, resolve=False)
    for name in path:
        if not isinstance(node, Mapping) or name not in node or "_target_" in node:
            return True  # a part takes it; or it is reached by a reference or an index
        node = node[name]
    return "_target_" in str(node)
