"""Write the sources of the site to ``build/docs``; ``make docs`` builds the site from there.

The folders are those of the repository, so that links need no change. They hold pages, pictures,
and each other file that a page links to, as a text. Some pages are made for the site alone: the
tutorial, the docstrings, and the lists of experiments and decisions.
"""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "docs"))

from make_tutorial import page as tutorial

SITE = ROOT / "build" / "docs"
SHOWN = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "benchmarks/README.md")
LINK = re.compile(r"(\]\()([^)#\s:]+)(?=[)#])")
# Packages with a page of docstrings, beside the modules at the root.
ROOMS = ("functional", "interfaces", "testing", "model", "data", "text", "engine", "pareto", "run")


def main() -> None:
    """Delete the folder and write all sources."""
    shutil.rmtree(SITE, ignore_errors=True)
    waiting = [ROOT / name for name in SHOWN]
    waiting += [
        file for folder in ("docs", "experiments") for file in ROOT.glob(f"{folder}/**/*.md")
    ]
    while waiting:
        page = waiting.pop()
        if not _place(page).exists():
            waiting += _copy(page)
    written = {"docs/tutorial.md": tutorial(), **_lists(), **_api()}
    for name, text in written.items():
        (SITE / name).parent.mkdir(parents=True, exist_ok=True)
        (SITE / name).write_text(text, encoding="utf-8")


def _place(file: Path) -> Path:
    return SITE / file.resolve().relative_to(ROOT)


def _copy(page: Path) -> list[Path]:
    """Copy a page and the files it links to; return the linked pages, which are not copied."""
    linked = []

    def follow(link: re.Match[str]) -> str:
        file = page.parent / link[2]
        if not file.exists():
            return link[0]  # made for the site, or no link
        pages, name = _link_target(file.resolve(), link[2])
        linked.extend(pages)
        return f"{link[1]}{name}"

    text = LINK.sub(follow, page.read_text(encoding="utf-8"))
    _place(page).parent.mkdir(parents=True, exist_ok=True)
    _place(page).write_text(text, encoding="utf-8")
    return linked


def _link_target(file: Path, name: str) -> tuple[list[Path], str]:
    """Copy a linked file that is no page; return the linked pages, and the link for the site."""
    if file == ROOT / "docs" / "tutorial.py":
        shutil.copy(file.with_suffix(".ipynb"), _prepare(file.with_suffix(".ipynb")))
        return [], name.replace(".py", ".md")
    if file.is_dir():
        readme = file / "README.md"
        return ([readme], f"{name}/README.md") if readme.is_file() else ([], f"{name}/index.md")
    if file.suffix == ".md":
        return [file], name
    keeps_name = file.suffix in (".png", ".svg", ".ipynb")
    target = _prepare(file)
    shutil.copy(file, target if keeps_name else target.with_name(f"{target.name}.txt"))
    return [], name if keeps_name else f"{name}.txt"


def _prepare(file: Path) -> Path:
    """Return the target of a copy, after making its folder."""
    _place(file).parent.mkdir(parents=True, exist_ok=True)
    return _place(file)


def _lists() -> dict[str, str]:
    """Return the list of experiments and the list of decisions, by path."""
    gallery = ["# Experiments", "", "Questions, and what small models say to them."]
    for readme in sorted(ROOT.glob("experiments/*/README.md")):
        name, text = readme.parent.name, readme.read_text(encoding="utf-8")
        question = re.search(r"\*\*Question\.\*\* (.*?)\n\n", text, re.DOTALL)
        title = text.splitlines()[0].removeprefix("# ")
        gallery += [
            "",
            f"## [{title}]({name}/README.md)",
            "",
            question[1].replace("](../", "](") if question else "",
        ]
        gallery += [f"\n![{title}]({name}/{p.name})" for p in readme.parent.glob("*.png")]
    decisions = ["# Decisions", ""]
    for page in sorted(ROOT.glob("docs/adr/*.md")):
        title = page.read_text(encoding="utf-8").splitlines()[0].removeprefix("# ")
        decisions.append(f"- [{title.replace('.', chr(92) + '.', 1)}]({page.name})")
    lines_of = {"experiments/index.md": gallery, "docs/adr/index.md": decisions}
    return {name: "\n".join([*lines, ""]) for name, lines in lines_of.items()}


def _api() -> dict[str, str]:
    """Return a page of docstrings for each package and concept, and the list of pages, by path."""
    pages = {"rlcomp": sorted(ROOT.glob("rlcomp/[!_]*.py"))}
    for room in ROOMS:
        pages[f"rlcomp.{room}"] = sorted(ROOT.glob(f"rlcomp/{room}/[!_]*.py"))
    for concept in sorted(ROOT.glob("components/[!_]*")):  # a package, or one module
        files = sorted(concept.rglob("[!_]*.py")) if concept.is_dir() else [concept]
        pages[f"components.{concept.stem}"] = files
    listed = "\n".join(f"- [`{name}`]({name}.md)" for name in pages)
    texts = {"api/index.md": f"# Modules\n\nFrom the docstrings.\n\n{listed}\n"}
    for name, files in pages.items():
        modules = [".".join(file.relative_to(ROOT).with_suffix("").parts) for file in files]
        lines = [f"# {name}", *(f"\n::: {module}" for module in modules), ""]
        texts[f"api/{name}.md"] = "\n".join(lines)
    return texts


if __name__ == "__main__":
    main()
