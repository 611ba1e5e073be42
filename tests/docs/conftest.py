"""The commands that pages name, as a shell that runs them would start them."""

import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = (
    "audit", "describe", "evaluate", "export", "replay", "report", "sample", "software-tasks",
)  # fmt: skip
OURS = ("rlcomp", *(f"rlcomp-{name}" for name in PROGRAMS))
TOOLS = ("torchrun", "python", "python3", "pip", "make", "pre-commit")
# In place of every program: it notes its words, and a run's directory is there afterwards.
NOTED = """#!/bin/sh
printf '%s\\0' "${0##*/}" "$@" END >> "$NOTES"
for word; do case $word in directory=*) mkdir -p "${word#directory=}" ;; esac; done
"""
SHELL = re.compile(r"^```(\w*)\n(.*?)^```$|`([^`]+)`", re.MULTILINE | re.DOTALL)
SPOKEN = re.compile(rf"(?:{'|'.join((*OURS, *TOOLS, 'sh', 'bash'))})\s\S")
IN_DOCSTRING = re.compile(r"``((?:python \S+|\w+\.py) [^`]+|python \S+)``")


def snippets(page: Path) -> list[str]:
    """What a page shows to be typed: shell blocks and commands within sentences, in order."""
    text = page.read_text(encoding="utf-8")
    if page.suffix == ".py":
        return [_usage(page, found) for found in IN_DOCSTRING.findall(text)]
    found = []
    for kind, block, inline in SHELL.findall(text):
        if page.parent.name == "benchmarks" and re.match(r"\w+\.py \S", inline):
            inline = f"python benchmarks/{inline}"  # of the table of rows
        if kind in ("sh", "bash", "shell", "console") or SPOKEN.match(inline):
            found.append(block or " ".join(inline.split()))
    return found


def _usage(script: Path, text: str) -> str:
    """A script's own usage without what may be left out, and with the first of several values."""
    words = re.sub(r" \[[^]]*\]| \.\.\.", "", text).removeprefix("python ").split()
    name = words[0] if "/" in words[0] else (script.parent / words[0]).relative_to(ROOT)
    return " ".join(["python", str(name), *(word.partition("|")[0] for word in words[1:])])


@pytest.fixture(scope="session", name="snippets")
def all_snippets() -> Callable[[Path], list[str]]:
    """``snippets(page)``: as they are written."""
    return snippets


@pytest.fixture(scope="session")
def jobs() -> Callable[[list[str]], list[list[str]]]:
    """``jobs(words)``: the override lists of a command line, one for each job of a sweep.

    A search has as many as it tries; one at the start of each range is enough.
    """
    parser = OverridesParser.create()

    def of(words: list[str]) -> list[list[str]]:
        found: list[list[str]] = [[]]
        for word in words:
            override, choices = parser.parse_override(word), [word]
            if override.is_sweep_override():
                ranged = not override.is_discrete_sweep()
                values = [override.value().start] if ranged else override.sweep_string_iterator()
                choices = [f"{override.get_key_element()}={value}" for value in values]
            found = [[*job, choice] for job in found for choice in choices]
        return found

    return of


@pytest.fixture(scope="session")
def commands(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Path], list[list[str]]]:
    """``commands(page)``: the words of all that its snippets start, scripts of ours included."""
    programs = tmp_path_factory.mktemp("programs")
    (programs / "noted").write_text(NOTED)
    (programs / "noted").chmod(0o755)
    for name in (*OURS, *TOOLS):
        (programs / name).symlink_to("noted")
    found: dict[Path, list[list[str]]] = {}

    def record(page: Path) -> list[list[str]]:
        where, notes = tmp_path_factory.mktemp("page"), tmp_path_factory.mktemp("notes") / "notes"
        notes.touch()
        (where / ".venv" / "bin").mkdir(parents=True)
        (where / ".venv" / "bin" / "activate").touch()
        (where / "experiments").symlink_to(ROOT / "experiments")
        path = f"{programs}:/usr/bin:/bin"
        variables = {**os.environ, "PATH": path, "NOTES": str(notes), "RUNS": "runs/methods"}
        for text in snippets(page):
            # A program that is neither ours nor listed above is not found, and that is an error.
            shell = ["bash", "-e", "-c", text]
            done = subprocess.run(shell, cwd=where, env=variables, capture_output=True, text=True)
            assert done.returncode == 0, f"{page}: {text}\n{done.stderr}"
        lines, words = [], list[str]()
        for word in notes.read_text().split("\0")[:-1]:
            if word == "END":
                lines.append(words)
                words = []
            else:
                words.append(word)
        return lines

    def of(page: Path) -> list[list[str]]:
        if page not in found:
            found[page] = record(page)
        return found[page]

    return of
