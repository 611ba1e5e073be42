"""Origins of runs: directory, command line, commit, versions."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from rlcomp.report.runs import Run

_COMMITS = ("commit", "commit of rlcomp")


@dataclass(frozen=True)
class RunOrigin:
    """Origin of one run; ``environment`` is the number of its environment, from 1."""

    directory: str
    command: str
    commit: str
    environment: int | None


def run_origins(runs: Sequence[Run]) -> tuple[list[RunOrigin], list[str]]:
    """Return the origin of each run, and the distinct environments in words."""
    numbers: dict[str, int] = {}
    rows = []
    for run in runs:
        words = ", ".join(f"{k} {v}" for k, v in run.environment.items() if k not in _COMMITS)
        number = numbers.setdefault(words, len(numbers) + 1) if words else None
        rows.append(RunOrigin(str(run.directory), command(run), _commit(run), number))
    return rows, list(numbers)


def command(run: Run) -> str:
    """Write the command line that repeats a run, in a directory of its own.

    Examples:
        >>> from pathlib import Path
        >>> words = ("recipe=grpo", "model=[1, 2]", "directory=runs/sweep")
        >>> command(Run(Path("a"), "finished", command=words))
        "rlcomp recipe=grpo 'model=[1, 2]'"
    """
    return shlex.join(["rlcomp", *(w for w in run.command if not w.startswith("directory="))])


def _commit(run: Run) -> str:
    """Return the commits of working directory and rlcomp, 12 digits; ``+``: changed files."""
    commits = [run.environment[name] for name in _COMMITS if run.environment.get(name)]
    short_hashes = [text[:12] + ("+" if text.endswith("+") else "") for text in commits]
    return ", rlcomp ".join(dict.fromkeys(short_hashes))
