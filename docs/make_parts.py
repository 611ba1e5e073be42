"""Writes ``parts.md``: every option with its first comment: ``python docs/make_parts.py``."""

from __future__ import annotations

import re
from pathlib import Path

from rlcomp.cli.help import files_of, is_patch, read_option
from rlcomp.wiring.options import chosen_as, config_directory

PAGE = Path(__file__).with_name("parts.md")

INTRODUCTION = """\
# The parts

Everything that can stand after `=`, with the first comment of its yaml. This page is made from
`conf` by `python docs/make_parts.py`. On the command line `rlcomp help` prints the same,
`rlcomp help advantage` one group, and `rlcomp help advantage=gdpo` settings, formula and source of
one. The methods themselves, `recipe=NAME`, are on [a page of their own](recipes.md).

Parts are put into one place of the config, where the command line names it. Patches set several
places at once; the last groups here, from `curriculum` on.
"""


def parts_page() -> str:
    """The whole page: parts before patches."""
    files = files_of([config_directory()])
    files.pop("recipe")
    groups = sorted(files, key=lambda group: (is_patch(files[group].values()), group))
    return "\n".join([INTRODUCTION, *(line for group in groups for line in _group(group, files))])


def _group(group: str, files: dict[str, dict[str, Path]]) -> list[str]:
    chosen = " or ".join(f"`{name}=NAME`" for name in chosen_as(group))
    rows = []
    for name, file in files[group].items():
        link = f"../{file.relative_to(config_directory().parent).as_posix()}"
        said = re.sub(r"[|<]", r"\\\g<0>", " ".join(read_option(file).told))
        rows.append(f"| [{name}]({link}) | {said} |")
    return [f"## {group}", "", f"Chosen by {chosen}.", "", "| option | |", "|---|---|", *rows, ""]


if __name__ == "__main__":
    PAGE.write_text(parts_page(), encoding="utf-8")
