"""Puts the sources of the site together in ``build/docs``; ``make docs`` builds it from there.

The tree is that of the repository, so that a link leads to the same file here and there: pages,
pictures, and each file that a page links to, as a text. Made for the site alone are the tutorial as
a page, the docstrings, and the lists of experiments and decisions.
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
# A page for each: the modules at the root are what the author of a part imports.
ROOMS = ("functional", "interfaces", "testing", "model", "data", "text", "engine", "pareto", "run")


def main() -> None:
    """Write everything anew."""
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
    """Copy a page with what it links to; returns the pages among that."""
    linked = []

    def follow(found: re.Match[str]) -> str:
        file = page.parent / found[2]
        if not file.exists():
            return found[0]  # made for the site, or no link
        target, name = _shown(file.resolve(), found[2])
        linked.extend(target)
        return f"{found[1]}{name}"

    text = LINK.sub(follow, page.read_text(encoding="utf-8"))
    _place(page).parent.mkdir(parents=True, exist_ok=True)
    _place(page).write_text(text, encoding="utf-8")
    return linked


def _shown(file: Path, name: str) -> tuple[list[Path], str]:
    """The pages that a link leads to, and the link as the site has it."""
    if file == ROOT / "docs" / "tutorial.py":
        shutil.copy(file.with_suffix(".ipynb"), _made(file.with_suffix(".ipynb")))
        return [], name.replace(".py", ".md")
    if file.is_dir():
        readme = file / "README.md"
        return ([readme], f"{name}/README.md") if readme.is_file() else ([], f"{name}/index.md")
    if file.suffix == ".md":
        return [file], name
    picture = file.suffix in (".png", ".svg", ".ipynb")
    shown = name if picture else f"{name}.txt"
    made = _made(file)
    shutil.copy(file, made if picture else made.with_name(f"{made.name}.txt"))
    return [], shown


def _made(file: Path) -> Path:
    """Return the target of a copy; make its folder."""
    _place(file).parent.mkdir(parents=True, exist_ok=True)
    return _place(file)


def _lists() -> dict[str, str]:
    """The gallery of experiments, and the decisions."""
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
    joined = {"experiments/index.md": gallery, "docs/adr/index.md": decisions}
    return {name: "\n".join([*lines, ""]) for name, lines in joined.items()}


def _api() -> dict[str, str]:
    """Docstrings: a page for each room, and for each concept."""
    pages = {"rlcomp": sorted(ROOT.glob("rlcomp/[!_]*.py"))}
    for room in ROOMS:
        pages[f"rlcomp.{room}"] = sorted(ROOT.glob(f"rlcomp/{room}/[!_]*.py"))
    for concept in sorted(ROOT.glob("components/[!_]*")):  # a package, or one module
        files = sorted(concept.rglob("[!_]*.py")) if concept.is_dir() else [concept]
        pages[f"components.{concept.stem}"] = files
    listed = "\n".join(f"- [`{name}`]({name}.md)" for name in pages)
    made = {"api/index.md": f"# Modules\n\nFrom the docstrings.\n\n{listed}\n"}
    for name, files in pages.items():
        modules = [".".join(file.relative_to(ROOT).with_suffix("").parts) for file in files]
        made[f"api/{name}.md"] = "\n".join([f"# {name}", *(f"\n::: {one}" for one in modules), ""])
    return made


if __name__ == "__main__":
    main()
