"""Command line of an experiment's results: runs, or their saved rows, to a table and a figure."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rlcomp.files.json_lines import read_lines

Rows = list[dict[str, Any]]


def show(
    description: str,
    collect: Callable[[Path], Rows],
    table: Callable[[Rows], str],
    draw: Callable[[Rows, Path], None],
) -> None:
    """Print the table of ``RUNS``, a folder or a file of rows in JSON Lines.

    ``--results FILE`` keeps the rows, so that table and figure can be made again without the runs;
    ``--figure FILE`` draws.

    Args:
        description: what ``--help`` says; its first line is taken.
        collect: from the folder of the runs to rows.
        table: from the rows to Markdown.
        draw: from the rows to a file.
    """
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    parser.add_argument("runs", type=Path)
    parser.add_argument("--results", type=Path)
    parser.add_argument("--figure", type=Path)
    given = parser.parse_args()
    rows = read_lines(given.runs) if given.runs.suffix == ".jsonl" else collect(given.runs)
    if given.results:
        given.results.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    print(table(rows))
    if given.figure:
        draw(rows, given.figure)
