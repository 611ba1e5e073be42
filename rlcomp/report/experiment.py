"""Command line of an experiment's results: a table and a figure of runs or of saved rows."""

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

    ``--results FILE`` saves the rows, so that table and figure can be made again without the runs;
    ``--figure FILE`` draws the figure.

    Args:
        description: text of ``--help``; only its first line.
        collect: converts the folder of the runs to rows.
        table: converts the rows to Markdown.
        draw: draws the rows to a file.
    """
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    parser.add_argument("runs", type=Path)
    parser.add_argument("--results", type=Path)
    parser.add_argument("--figure", type=Path)
    options = parser.parse_args()
    rows = read_lines(options.runs) if options.runs.suffix == ".jsonl" else collect(options.runs)
    if options.results:
        options.results.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    print(table(rows))
    if options.figure:
        draw(rows, options.figure)
