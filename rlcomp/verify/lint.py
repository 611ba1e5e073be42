"""The verdict of ruff on a program; ruff reads the program and does not run it."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Sequence

from rlcomp.errors import ConfigError, require

_SECONDS = 10.0
# Comments that change the verdict and that no flag of ruff disables.
_UNSEEN = re.compile(r"#\s*(?:ruff:\s*)?isort:", re.IGNORECASE)


def is_clean(source: str, rules: Sequence[str]) -> bool:
    """Return whether ruff has no complaint about a program.

    Settings of this machine and ``noqa`` comments do not count. A program with an ``isort:``
    comment, which hides lines from ruff, is not clean; nor is one that ruff cannot read within ten
    seconds.

    Args:
        source: Python.
        rules: ruff's, such as ``["E", "F"]``.

    Examples:
        >>> is_clean("x = 1", ["F"]), is_clean("import os  # noqa", ["F"])
        (True, False)
        >>> is_clean("import sys  # isort: skip", ["I"])
        False
    """
    if _UNSEEN.search(source):
        return False
    try:
        return _ruff(source, rules).returncode == 0
    except subprocess.TimeoutExpired:
        return False


def check_rules(rules: Sequence[str]) -> None:
    """Refuse rules that ruff does not know.

    Raises:
        ConfigError: a rule is unknown; the message is ruff's.
        MissingExtra: ruff is not installed (extra ``verify``).
    """
    require("ruff", "verify")
    process = _ruff("", rules)
    if process.returncode != 0:
        message = " ".join(process.stderr.decode(errors="replace").split())
        raise ConfigError(f"lint is {[*rules]}, which ruff refuses: {message[:200]}")


def _ruff(source: str, rules: Sequence[str]) -> subprocess.CompletedProcess[bytes]:
    settings = ["--isolated", "--no-cache", "--ignore-noqa", "--quiet", "--output-format=concise"]
    return subprocess.run(
        [
            sys.executable,
            "-I",
            "-m",
            "ruff",
            "check",
            *settings,
            f"--select={','.join(rules)}",
            "-",
        ],
        input=source.encode(errors="replace"),
        capture_output=True,
        timeout=_SECONDS,
        check=False,
    )
