"""Completion, called the way a shell calls it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import rlcomp as package

HOME = Path(package.__file__).parents[1]
# What bash does at a Tab: it calls the function that was registered, with the line in variables.
TAB = """
eval "$(rlcomp -sc install=bash)"
COMP_LINE=$1; COMP_POINT=${#1}; COMP_WORDS=($1); COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
hydra_bash_completion
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture
def own(tmp_path, monkeypatch):
    """A user's own option, in the working directory."""
    (tmp_path / "mine" / "advantage").mkdir(parents=True)
    (tmp_path / "mine" / "advantage" / "batch_mean.yaml").write_text("_target_: my.BatchMean\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def offered(rlcomp, capsys, monkeypatch, line):
    monkeypatch.setenv("COMP_LINE", line)
    monkeypatch.setenv("COMP_POINT", str(len(line)))
    assert rlcomp("-sc", "query=bash") == 0
    return set(capsys.readouterr().out.split())


def test_a_tab_in_bash_completes_own_options(own):
    program = own / "rlcomp"
    program.write_text(f"#!{sys.executable}\nfrom rlcomp.cli.run import main\nmain()\n")
    program.chmod(0o755)
    variables = {**os.environ, "PATH": f"{own}:/usr/bin:/bin", "PYTHONPATH": str(HOME)}

    done = subprocess.run(
        ["bash", "-c", TAB, "bash", "rlcomp -cd mine advantage=batch"],
        env=variables,
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout.split() == ["advantage=batch_mean", "advantage=batch_whitened"]
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("line", "known"),
    [
        ("rlcomp --config-dir=mine advantage=batch", True),
        ("rlcomp -cd ~/mine advantage=batch", True),
        ("rlcomp advantage=batch", False),
        ("rlcomp -cd min advantage=batch", False),  # still being typed
    ],
)
@pytest.mark.usefixtures("own")
def test_own_options_are_offered_where_their_directory_is_named(
    rlcomp, capsys, monkeypatch, line, known
):
    shipped, mine = {"advantage=batch_whitened"}, {"advantage=batch_mean"}

    assert offered(rlcomp, capsys, monkeypatch, line) == (shipped | mine if known else shipped)


def test_what_help_explains_completes_as_what_is_chosen(rlcomp, capsys, monkeypatch):
    found = offered(rlcomp, capsys, monkeypatch, "rlcomp help advantage=gr")

    assert "advantage=greedy_baseline" in found
    assert all(word.startswith("advantage=gr") for word in found)


def test_a_run_does_not_listen_to_the_line_of_a_shell(rlcomp, capsys, monkeypatch, own):
    monkeypatch.setenv("COMP_LINE", "rlcomp -cd mine help x")

    assert rlcomp("help", "advantage=batch_mean") == 2
    assert "has no option 'batch_mean'" in capsys.readouterr().err
