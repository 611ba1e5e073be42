"""The other pages: keys, decisions, contributing, links."""

import re
import runpy
from pathlib import Path

import pytest

from rlcomp.keys import CONTROL, SCHEMA

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("experiments/**/*.md")])
DECISIONS = sorted((ROOT / "docs" / "adr").glob("*.md"))


def test_the_page_of_keys_is_that_of_the_schema():
    page = runpy.run_path(str(ROOT / "docs" / "make_keys.py"))["keys_page"]()

    assert (ROOT / "docs" / "keys.md").read_text(encoding="utf-8") == page, (
        "python docs/make_keys.py"
    )


def test_the_page_of_keys_has_a_row_for_every_key():
    page = (ROOT / "docs" / "keys.md").read_text(encoding="utf-8")

    assert re.findall(r"^\| `([\w.]+)` \|", page, re.MULTILINE) == [*SCHEMA, *CONTROL]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_to_a_file(page):
    code = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
    links = re.findall(r"\]\(([^)#]+)\)", code.sub("", page.read_text(encoding="utf-8")))

    dead = [link for link in links if "://" not in link and not (page.parent / link).exists()]

    assert dead == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_file_named_in_a_page_exists(page):
    text = page.read_text(encoding="utf-8")
    named = re.findall(
        r"`((?:rlcomp|components|conf|tests|docs|experiments|benchmarks)/[\w/.-]+)`", text
    )

    assert [name for name in named if not (ROOT / name).exists()] == []


def test_decisions_are_numbered_without_gaps():
    numbers = [int(page.name[:4]) for page in DECISIONS]

    assert numbers == list(range(1, len(numbers) + 1))


@pytest.mark.parametrize("page", DECISIONS, ids=lambda page: page.stem)
def test_a_decision_has_context_decision_and_consequences(page):
    text = page.read_text(encoding="utf-8")

    assert text.startswith(f"# {int(page.name[:4])}. ")
    assert re.findall(r"^## (.*)$", text, re.MULTILINE) == ["Context", "Decision", "Consequences"]


def test_the_code_shown_in_contributing_is_that_of_the_files():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    files = re.findall(r"^\*\*\d\. The \w+\*\*, `(\S+)`", text, re.MULTILINE)
    code = "".join((ROOT / file).read_text(encoding="utf-8") for file in files)

    shown = re.findall(r"^```(?:python|yaml)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)

    assert len(files) == 3
    assert len(shown) == 3
    assert [block for block in shown if block not in code] == []


def test_the_version_cited_is_that_of_the_project():
    cited = re.search(r"^version: (\S+)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)[1]

    assert f'version = "{cited}"' in (ROOT / "pyproject.toml").read_text()
