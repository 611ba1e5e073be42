"""``rlcomp-software-tasks FOLDER DIFF…``: make changes of a repository into tasks."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from rlcomp.cli.command_arguments import Parser
from rlcomp.cli.error_handler import run_program
from rlcomp.data.repositories import changes_of_commits, changes_of_diffs
from rlcomp.data.software import tasks_of
from rlcomp.errors import UserError
from rlcomp.sandbox.job import Limits
from rlcomp.sandbox.sandbox import Sandbox
from rlcomp.sandbox.tier import TIERS


def main() -> None:
    """Make changes of a repository into rows for environment=repository; exit 1 if none is a task.

    The sandbox runs every test of a change before and after it. The tests that fail before and pass
    after define the task.
    """
    run_program(_app)


def _app() -> None:
    parser = Parser(prog="rlcomp-software-tasks", description=main.__doc__)
    parser.add_argument("folder", type=Path, help="the repository before the changes")
    parser.add_argument(
        "diffs",
        nargs="*",
        type=Path,
        help="unified diffs with their tests; the issue of a.diff is a.md",
    )
    parser.add_argument("--commits", metavar="A..B", help="commits of the folder's git repository")
    parser.add_argument("--out", type=Path, required=True, help="the .jsonl file to write")
    parser.add_argument("--timeout", type=float, default=5.0, help="of a test, in seconds (5)")
    parser.add_argument("--min-tier", choices=TIERS, default="strict", help="walls (strict)")
    options = parser.parse()
    if bool(options.diffs) == bool(options.commits):
        raise UserError("name diffs, or --commits A..B, and not both")
    if options.out.exists():
        raise UserError(f"--out {options.out} already exists: name a new file")
    changes = (
        changes_of_commits(options.folder, options.commits)
        if options.commits
        else changes_of_diffs(options.folder, options.diffs)
    )
    limits = Limits(wall=options.timeout, cpu=options.timeout)
    with Sandbox(min_tier=options.min_tier) as sandbox:
        rows, dropped = tasks_of(changes, sandbox, limits)
    with options.out.open("x", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)
    for name, reason in dropped.items():
        print(f"dropped {name}: {reason}")
    print(f"{len(rows)} tasks, {len(dropped)} changes dropped: {options.out}")
    if not rows:
        sys.exit(1)
