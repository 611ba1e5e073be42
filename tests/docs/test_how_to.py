"""The code of the how-to pages: their files are written, then what is no file is run."""

import re
import sys
from pathlib import Path

import pytest

PAGES = sorted((Path(__file__).resolve().parents[2] / "docs" / "how_to").glob("*.md"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_code_of_a_page_runs(page, tmp_path, monkeypatch):
    blocks = re.findall(r"^```python\n(.*?)^```$", page.read_text(encoding="utf-8"), re.M | re.S)
    names = {block: re.match(r"# (\w+\.py)\n", block) for block in blocks}
    for block, name in names.items():
        if name:
            (tmp_path / name[1]).write_text(block)
            monkeypatch.delitem(sys.modules, name[1].removesuffix(".py"), raising=False)
    monkeypatch.syspath_prepend(tmp_path)

    for block in [block for block, name in names.items() if not name]:
        exec(compile(block, page.name, "exec"), {"__name__": page.stem})
