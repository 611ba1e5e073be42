"""What the README and the guide say is so: code runs, command lines compose, numbers are right."""

import importlib
import re
import shlex
import sys
from pathlib import Path

import pytest
import torch
from rich.console import Console

from rlcomp.cli.describe import describe, difference
from rlcomp.cli.error_handler import explain
from rlcomp.config.compose import compose_config
from rlcomp.config.equation import equations
from rlcomp.config.plan import read
from rlcomp.config.resolve import plan_of
from rlcomp.errors import ConfigErrors
from rlcomp.sweep.search import offer_search
from rlcomp.testing import check_component

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
TEXT = README + (ROOT / "docs" / "guide.md").read_text(encoding="utf-8")
WIDTH = 98
# A file's name at the head of a block.
NAME = re.compile(r"(?:# @package \S+\n)?# (\S+\.(?:py|yaml))\n")


def blocks(kind):
    return re.findall(rf"^```{kind}\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)


def shell_lines():
    """Those of the shell blocks, whole where they are continued."""
    return [line for block in blocks("sh") for line in block.replace("\\\n", "").splitlines()]


def command_lines(program):
    """Those of the shell blocks and those within sentences, as words."""
    shell = shell_lines()
    inline = re.findall(
        rf"`({program} [^`]+)`", re.sub(r"^```.*?^```$", "", TEXT, flags=re.M | re.S)
    )
    words = [shlex.split(line, comments=True) for line in (*shell, *inline)]
    return [line for line in words if line[:1] == [program]]


def without_options(words):
    """Overrides and config directories; -m, --help and --cfg job have nothing to compose."""
    overrides, directories, rest = [], [], iter(words)
    for word in rest:
        if word == "-cd":
            directories.append(next(rest))
        elif word == "--cfg":
            next(rest)
        elif not word.startswith("-"):
            overrides.append(word)
    return overrides, directories


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    """A directory with the files that are shown, importable."""
    where = tmp_path_factory.mktemp("readme")
    for block in (*blocks("python"), *blocks("yaml")):
        if name := NAME.match(block):
            (where / name[1]).parent.mkdir(parents=True, exist_ok=True)
            (where / name[1]).write_text(block)
    sys.path.insert(0, str(where))
    yield where
    sys.path.remove(str(where))
    for file in where.glob("*.py"):
        sys.modules.pop(file.stem, None)


REFUSED = ["rollout.group_size=1"]
HELP = [line[1:] for line in command_lines("rlcomp") if line[1:2] == ["help"]]
RUNS = [line[1:] for line in command_lines("rlcomp") if line[1:] not in (REFUSED, *HELP)]
DESCRIPTIONS = [line[1:] for line in command_lines("rlcomp-describe")]
REPORTS = [line[1:] for line in command_lines("rlcomp-report")]


@pytest.mark.parametrize("words", RUNS, ids=" ".join)
def test_every_command_line_composes_and_flows(words, jobs, directory, monkeypatch):
    monkeypatch.chdir(directory)
    offer_search()
    overrides, directories = without_options(words)

    for job in jobs(overrides):
        assert plan_of(compose_config(job, directories)).phases


def test_the_sweeps_have_the_jobs_they_are_said_to_have(jobs):
    said = [re.search(r"^rlcomp -m (.*)# (\d+) runs$", line) for line in shell_lines()]
    sweeps = [(shlex.split(found[1]), int(found[2])) for found in said if found]

    assert len(sweeps) == 4
    assert [len(jobs(without_options(words)[0])) for words, _ in sweeps] == [n for _, n in sweeps]


@pytest.mark.parametrize("words", REPORTS, ids=" ".join)
def test_every_report_has_options_there_are(words, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["rlcomp-report", *words, "--help"])

    with pytest.raises(SystemExit) as stopped:
        importlib.import_module("rlcomp.cli.report").main()

    options = capsys.readouterr().out
    assert stopped.value.code == 0
    assert [word for word in words if word.startswith("--") and word not in options] == []


@pytest.mark.parametrize("words", DESCRIPTIONS, ids=" ".join)
def test_every_described_recipe_composes_and_flows(words):
    one, _, other = " ".join(word for word in words if word != "--equation").partition(
        " --against "
    )

    assert plan_of(compose_config(one.split())).phases
    assert plan_of(compose_config(other.split())).phases


def test_the_equations_shown_are_what_is_printed():
    plan, _ = read(compose_config(["loss=dapo"]))

    assert "\n".join(equations(plan)) in TEXT


def printed(*renderables):
    console = Console(width=WIDTH)
    with console.capture() as captured:
        for renderable in renderables:
            console.print(renderable)
    return [line.rstrip() for line in captured.get().splitlines()]


def shown(start):
    block = next(block for block in blocks("text") if block.startswith(start))
    return [line for line in block.splitlines() if line.strip() != "..."]


def test_the_description_shown_is_what_is_printed():
    plan, _ = read(compose_config(["recipe=grpo"]))

    assert set(shown("phase rl")) <= set(printed(*describe(plan)))


def test_the_difference_shown_is_what_is_printed():
    one, other = "recipe=grpo", "recipe=gspo"
    table = difference(compose_config([one]), compose_config([other]), (one, other))

    assert set(shown("recipe=grpo against")) <= set(printed(table))


def test_the_mistake_shown_is_what_is_said():
    with pytest.raises(ConfigErrors) as error:
        plan_of(compose_config(REFUSED))

    assert f"rlcomp: {explain(error.value)}\n" in blocks("text")


def test_the_part_of_ones_own_keeps_the_contract(directory):
    check_component(importlib.import_module("my_parts").BatchMean())


@pytest.mark.parametrize("code", [block for block in blocks("python") if not NAME.match(block)])
def test_the_code_by_hand_runs(code):
    ran = {"__name__": "guide"}
    exec(compile(code, "guide.md", "exec"), ran)

    modules = [value for value in ran.values() if isinstance(value, torch.nn.Module)]
    assert modules
    assert all(bool(p.isfinite().all()) for module in modules for p in module.parameters())


def test_the_demos_sizes_are_those_of_the_recipe():
    config = compose_config([])

    assert (config.phases.warm_start.steps, config.phases.rl.steps) == (75, 150)
    assert (config.prompts.batch_size, config.rollout.group_size) == (64, 16)
    assert (config.task.length, config.task.held_out) == (6, 0.1)


def test_the_front_page_is_short():
    assert len(README) <= 12_000


def test_the_numbers_beside_trl_are_those_of_the_benchmarks():
    """The rows of ours against theirs, from the table that the benchmarks write."""
    table = (ROOT / "benchmarks" / "README.md").read_text(encoding="utf-8")

    def measured(row, digits):
        cells = re.search(rf"^\| {row} \|(.*)$", table, re.MULTILINE)[1].split(" | ")
        noisy = ", noisy" if "noisy" in cells[4] else ""
        return f"{float(cells[2].removesuffix(' x')):.{digits}f}{noisy}"

    def shown(row):
        cell = re.search(rf"^\| {row} \| ([^|]*) \|", README, re.MULTILINE)[1]
        return re.fullmatch(r"(.*?) \(S\), (.*?) \(M\), (.*?) \(L\); (.*?) \(hostile\)", cell)

    times = [measured(f"GRPO step {size}", 1) for size in ("S", "M", "L", "hostile")]
    memory = [measured(f"step {size}, peak memory", 2) for size in ("S", "M", "L", "hostile")]
    assert list(shown("a GRPO step, CPU seconds of TRL over ours").groups()) == times
    assert list(shown("its peak memory, ours over TRL's").groups()) == memory


@pytest.mark.parametrize("picture", re.findall(r"!\[[^\]]+\]\(([^)]+)\)", README))
def test_a_picture_is_small(picture):
    assert 10_000 < (ROOT / picture).stat().st_size < 300_000


def test_the_commands_of_the_makefile_stand_beside_it():
    makefile = (ROOT / "Makefile").read_text()
    plain = [
        line.strip().replace("--quiet ", "").replace("--editable", "-e").replace("$(BIN)/", "")
        for line in makefile.splitlines()
        if line.startswith("\t$(BIN)")
    ]

    for command in plain:
        if "pip install" in command and "--upgrade" not in command:
            assert command.removeprefix("python -m ") in TEXT
    assert next(line for line in plain if "not slow" in line) in TEXT


def test_the_extras_are_those_of_the_project():
    project = (ROOT / "pyproject.toml").read_text()
    section = project.partition("[project.optional-dependencies]\n")[2].partition("\n[")[0]
    paragraph = re.search(r"^Extras:.*?\n\n", TEXT, re.MULTILINE | re.DOTALL)[0]

    assert set(re.findall(r"`(\w+)`", paragraph)) == set(
        re.findall(r"^(\w+) = ", section, re.MULTILINE)
    )
