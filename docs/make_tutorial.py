"""Write ``tutorial.ipynb`` from ``tutorial.py``: ``python docs/make_tutorial.py``."""

from __future__ import annotations

import json
import re
from pathlib import Path

SOURCE = Path(__file__).with_name("tutorial.py")
NOTEBOOK = Path(__file__).with_name("tutorial.ipynb")


def cells() -> list[tuple[str, str]]:
    """Return the kind (``markdown`` or ``code``) and the text of each cell."""
    parts = re.split(r"^# %%", SOURCE.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    return [_cell(*part.split("\n", 1)) for part in parts]


def _cell(mark: str, text: str) -> tuple[str, str]:
    if "[markdown]" in mark:
        return "markdown", re.sub(r"^# ?", "", text, flags=re.MULTILINE).strip()
    return "code", text.strip()


def notebook() -> str:
    """Return the notebook as JSON, without outputs."""
    json_cells = []
    for number, (kind, text) in enumerate(cells()):
        code = {"execution_count": None, "outputs": []} if kind == "code" else {}
        cell = {"cell_type": kind, "id": f"cell-{number}", "metadata": {}, **code}
        json_cells.append({**cell, "source": text.splitlines(keepends=True)})
    language = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    content = {"cells": json_cells, "metadata": language, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


def page() -> str:
    """Return the tutorial as a page of the site."""
    shown = [text if kind == "markdown" else f"```python\n{text}\n```" for kind, text in cells()]
    return "\n\n".join([*shown, "[This page as a notebook](tutorial.ipynb)", ""])


if __name__ == "__main__":
    NOTEBOOK.write_text(notebook(), encoding="utf-8")
