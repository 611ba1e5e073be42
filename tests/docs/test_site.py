"""The site: what is made from the code is that of the code, and every link of its tree leads on."""

import json
import re
import runpy
import sys
from pathlib import Path

import pytest
import yaml

from rlcomp.cli.help import files_of
from rlcomp.config.options import config_directory

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"


def made_by(script):
    return runpy.run_path(str(DOCS / script))


@pytest.mark.parametrize(
    ("script", "function", "file"),
    [
        ("make_parts.py", "parts_page", "parts.md"),
        ("make_step.py", "step_picture", "images/step.svg"),
        ("make_tutorial.py", "notebook", "tutorial.ipynb"),
    ],
)
def test_what_is_made_is_that_of_the_code(script, function, file):
    made = made_by(script)[function]()

    assert (DOCS / file).read_text(encoding="utf-8") == made, f"python docs/{script}"


def test_the_page_of_parts_has_a_row_for_every_option_but_recipes():
    rows = re.findall(r"^\| \[\w+\]\(\.\./(\S+)\)", (DOCS / "parts.md").read_text(), re.MULTILINE)

    files = files_of([config_directory()])
    parts = [file for group in files if group != "recipe" for file in files[group].values()]
    assert sorted(rows) == sorted(file.relative_to(ROOT).as_posix() for file in parts)


def test_the_picture_of_a_step_shows_who_writes_and_reads_the_advantage():
    picture = (DOCS / "images" / "step.svg").read_text(encoding="utf-8")

    name, marks = re.search(r"(>advantage</text>\n<line[^>]*>)((\n<circle[^>]*>)*)", picture).group(
        1, 2
    )
    assert name.startswith(">advantage")
    assert re.findall(r'class="(\w+)"', marks) == ["write", "read"]  # advantage, then learner


def test_the_notebook_has_the_cells_of_the_tutorial():
    cells = json.loads((DOCS / "tutorial.ipynb").read_text(encoding="utf-8"))["cells"]
    code = "".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    words = "".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")

    source = (DOCS / "tutorial.py").read_text(encoding="utf-8")
    assert len(cells) == source.count("\n# %%")
    assert "make = Make(seed=0)\n" in code
    assert "# %%" not in code + words
    assert words.startswith("# A pipeline, part by part\n\nThis page builds")


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The tree that the site is built from."""
    where = tmp_path_factory.mktemp("site") / "docs"
    script = made_by("make_site.py")
    script["main"].__globals__["SITE"] = where
    script["main"]()
    return where


def test_every_page_of_the_navigation_is_there(site):
    # Without the tags that only mkdocs knows.
    nav = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"]

    def pages(node):
        if isinstance(node, str):
            return [node]
        children = node.values() if isinstance(node, dict) else node
        return [page for child in children for page in pages(child)]

    assert len(pages(nav)) > 15
    assert [page for page in pages(nav) if not (site / page).is_file()] == []


def test_every_link_of_the_tree_leads_to_a_file(site):
    dead = [
        f"{page.relative_to(site)}: {link}"
        for page in site.rglob("*.md")
        for link in re.findall(r"\]\(([^)#\s]+)[)#]", page.read_text(encoding="utf-8"))
        if "://" not in link and "/" in link and not (page.parent / link).is_file()
    ]

    assert dead == []


def test_every_experiment_is_in_the_gallery_and_every_decision_in_its_list(site):
    gallery = (site / "experiments" / "index.md").read_text(encoding="utf-8")
    decisions = (site / "docs" / "adr" / "index.md").read_text(encoding="utf-8")

    names = {page.parent.name for page in ROOT.glob("experiments/*/README.md")}
    assert set(re.findall(r"^## \[.*\]\((\w+)/README\.md\)", gallery, re.MULTILINE)) == names
    assert "![" in gallery
    assert decisions.count("\n- [") == len(list(ROOT.glob("docs/adr/*.md")))


def test_every_module_of_a_concept_has_its_docstrings(site):
    page = (site / "api" / "components.advantage.md").read_text(encoding="utf-8")

    modules = {f"components.advantage.{f.stem}" for f in ROOT.glob("components/advantage/[!_]*.py")}
    assert set(re.findall(r"^::: (\S+)$", page, re.MULTILINE)) == modules


@pytest.mark.parametrize(
    ("concept", "module"),
    [("kl", "components.kl"), ("worlds", "components.worlds.sorting.task")],
)
def test_a_concept_of_one_module_and_the_worlds_have_their_page(site, concept, module):
    page = (site / "api" / f"components.{concept}.md").read_text(encoding="utf-8")

    assert f"::: {module}\n" in page


def test_a_role_of_a_docstring_is_shown_as_its_name():
    show = made_by("site_hooks.py")["on_page_content"]

    assert show("see :func:<code>~a.b</code> and <code>c</code>") == (
        "see <code>a.b</code> and <code>c</code>"
    )
    assert "make_site" not in sys.modules
