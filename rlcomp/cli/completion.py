"""Completion in a shell: the part of the typed line that Hydra's completion ignores.

The shell calls ``rlcomp -sc query=bash`` with the line in ``COMP_LINE``. Hydra completes overrides
by the configs of its own command line, which has no ``-cd``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

_DIRECTORY = re.compile(r"\s(?:-cd|--config-dir)[ =](\S+)")


def add_config_dirs(words: Sequence[str]) -> list[str]:
    """Return a command line with the ``-cd DIR`` of the line to be completed.

    ``help`` is removed from that line, so that its arguments complete like choices.

    Args:
        words: of the command line.
    """
    line = os.environ.get("COMP_LINE", "")
    if not {"-sc", "--shell-completion"} & set(words) or not line:
        return list(words)
    os.environ["COMP_LINE"] = re.sub(r"\shelp\s", " ", line, count=1)
    directories = [Path(directory).expanduser() for directory in _DIRECTORY.findall(line)]
    # A folder that is still being typed is no mistake.
    return [
        *words,
        *(
            word
            for directory in directories
            if directory.is_dir()
            for word in ("-cd", str(directory))
        ),
    ]
