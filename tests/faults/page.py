"""The tables of docs/faults.md: each between its marks, written by the script that measured it."""

import re
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "faults.md"


def _slot(name):
    return re.compile(rf"(<!-- {name} -->\n).*?(<!-- end of {name} -->)", re.DOTALL)


def rows_of(name, page=PAGE):
    """The rows of a table so far, below its head: cells by the first of them."""
    found = _slot(name).search(page.read_text(encoding="utf-8"))
    lines = [line for line in found[0].splitlines() if line.startswith("|")][2:]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return {cells[0]: cells for cells in rows}


def write(name, head, rows, page=PAGE):
    """Put a table in place of the one that is there."""
    lines = [head, ["---"] * len(head), *rows]
    body = "".join(f"| {' | '.join(map(str, line))} |\n" for line in lines)
    text = page.read_text(encoding="utf-8")
    page.write_text(_slot(name).sub(lambda m: m[1] + body + m[2], text), encoding="utf-8")
