"""Write ``parts.md``, every option with its first comment: ``python docs/make_parts.py``."""

from __future__ import annotations

import re
from pathlib import Path

from rlcomp.cli.help import files_of, is_patch, read_option
from rlcomp.config.options import choice_keys, config_directory

PAGE = Path(__file__).with_name("parts.md")

INTRODUCTION = """\
# The parts

This page lists every option that can stand after `=`, with the first comment of its yaml. `python
docs/make_parts.py` makes it from `conf`. On the command line `rlcomp help` prints the same list,
`rlcomp help advantage` one group, and `rlcomp help advantage=gdpo` settings, formula and source of
one option. The methods, `recipe=NAME`, are on [a page of their own](recipes.md).

A part is put into one place of the config, which the command line names. A patch sets several
places at once; patches are the last groups, from `curriculum` on.
"""


def parts_page() -> str:
    """Return the text of the page, parts before patches."""
    files = files_of([config_directory()])
    files.pop("recipe")
    groups = sorted(files, key=lambda group: (is_patch(files[group].values()), group))
    return "\n".join([INTRODUCTION, *(line for group in groups for line in _group(group, files))])


def _group(group: str, files: dict[str, dict[str, Path]]) -> list[str]:
    chosen = " or ".join(f"`{name}=NAME`" for name in choice_keys(group))
    rows = []
    for name, file in files[group].items():
        link = f"../{file.relative_to(config_directory().parent).as_posix()}"
        description = re.sub(r"[|<]", r"\\\g<0>", " ".join(read_option(file).description))
        rows.append(f"| [{name}]({link}) | {description} |")
    return [f"## {group}", "", f"Chosen by {chosen}.", "", "| option | |", "|---|---|", *rows, ""]


if __name__ == "__main__":
    PAGE.write_text(parts_page(), encoding="utf-8")
