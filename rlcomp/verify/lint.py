"""A linter's verdict on a program: ruff, which reads the program and runs nothing."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Sequence

from rlcomp.errors import ConfigError, require

_SECONDS = 10.0
# Comments of which no flag of ruff's makes nothing.
_UNSEEN = re.compile(r"#\s*(?:ruff:\s*)?isort:", re.IGNORECASE)


def is_clean(source: str, rules: Sequence[str]) -> bool:
    """Whether ruff finds nothing to say of a program.

    No settings of this machine count, and no ``noqa`` of the program's; one that tells ruff by an
    ``isort:`` comment what not to look at is not clean. Neither is what ruff cannot read, or not
    within ten seconds.

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
        ConfigError: it does not; in its own words.
        MissingExtra: ruff is not installed (extra ``verify``).
    """
    require("ruff", "verify")
    done = _ruff("", rules)
    if done.returncode != 0:
        told = " ".join(done.stderr.decode(errors="replace").split())
        raise ConfigError(f"lint is {[*rules]}, which ruff refuses: {told[:200]}")


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
