"""Writes ``tutorial.ipynb`` from ``tutorial.py``: ``python docs/make_tutorial.py``."""

from __future__ import annotations

import json
import re
from pathlib import Path

SOURCE = Path(__file__).with_name("tutorial.py")
NOTEBOOK = Path(__file__).with_name("tutorial.ipynb")


def cells() -> list[tuple[str, str]]:
    """Kind (``markdown``, ``code``) and text of each cell."""
    parts = re.split(r"^# %%", SOURCE.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    return [_cell(*part.split("\n", 1)) for part in parts]


def _cell(mark: str, text: str) -> tuple[str, str]:
    if "[markdown]" in mark:
        return "markdown", re.sub(r"^# ?", "", text, flags=re.MULTILINE).strip()
    return "code", text.strip()


def notebook() -> str:
    """The notebook, without outputs."""
    made = []
    for number, (kind, text) in enumerate(cells()):
        code = {"execution_count": None, "outputs": []} if kind == "code" else {}
        cell = {"cell_type": kind, "id": f"cell-{number}", "metadata": {}, **code}
        made.append({**cell, "source": text.splitlines(keepends=True)})
    language = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    whole = {"cells": made, "metadata": language, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(whole, indent=1, ensure_ascii=False) + "\n"


def page() -> str:
    """The same as a page of the site."""
    shown = [text if kind == "markdown" else f"```python\n{text}\n```" for kind, text in cells()]
    return "\n\n".join([*shown, "[This page as a notebook](tutorial.ipynb)", ""])


if __name__ == "__main__":
    NOTEBOOK.write_text(notebook(), encoding="utf-8")
