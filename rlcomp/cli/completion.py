"""Completion in a shell: what Hydra's does not take from the line that is typed.

The shell calls ``rlcomp -sc query=bash`` with the line in ``COMP_LINE``; Hydra completes its
overrides by the configs of its own command line, on which there is no ``-cd``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

_DIRECTORY = re.compile(r"\s(?:-cd|--config-dir)[ =](\S+)")


def words_with_line(words: Sequence[str]) -> list[str]:
    """A command line with the ``-cd DIR`` of the line that it shall complete.

    ``help`` is taken out of that line, so that what it explains completes as what is chosen does.

    Args:
        words: of the command line.
    """
    line = os.environ.get("COMP_LINE", "")
    if not {"-sc", "--shell-completion"} & set(words) or not line:
        return list(words)
    os.environ["COMP_LINE"] = re.sub(r"\shelp\s", " ", line, count=1)
    places = [Path(place).expanduser() for place in _DIRECTORY.findall(line)]
    # One that is still being typed is no mistake.
    return [*words, *(word for place in places if place.is_dir() for word in ("-cd", str(place)))]
