"""From a repository to rows that a task reads and an environment plays."""

import json
import os
import subprocess

import pytest

from components.task.file import FileTask
from rlcomp.arguments import Unbuilt
from rlcomp.cli.software_tasks import main
from rlcomp.episodes.host import Start
from rlcomp.episodes.processes import ProcessHosts

WRONG, RIGHT = "def half(n):\n    return n\n", "def half(n):\n    return n / 2\n"
TESTS = "from halves import half\n\n\ndef test_half():\n    assert half(3) == 1.5\n"


def git(folder, *words):
    names = {
        f"GIT_{who}_{what}": "a" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")
    }
    command = ["git", "-C", folder, *words]
    subprocess.run(command, check=True, capture_output=True, env={**os.environ, **names})


def commit(folder, message, **files):
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text)
    git(folder, "add", "-A")
    git(folder, "commit", "-m", message)


@pytest.fixture
def folder(tmp_path):
    """A git repository: a first commit, one that is a task, and one that is none."""
    folder = tmp_path / "halves"
    folder.mkdir()
    git(folder, "init")
    (folder / "halves.py").symlink_to("/etc/passwd")
    (folder / "picture.png").write_bytes(b"\x89PNG\0")
    git(folder, "add", "-A")
    git(folder, "commit", "-m", "Begin")
    (folder / "halves.py").unlink()
    commit(folder, "Add halves", halves=WRONG)
    commit(folder, "half does not halve\n\nOf 3 it makes 3.", halves=RIGHT, test_halves=TESTS)
    commit(folder, "Add a constant", constant="X = 1\n")
    return folder


@pytest.fixture
def make(monkeypatch, needs):
    needs("strict")

    def run(*words):
        monkeypatch.setattr("sys.argv", ["rlcomp-software-tasks", *map(str, words)])
        try:
            main()
        except SystemExit as leaving:
            return leaving.code
        return 0

    return run


def test_commits_are_told_or_dropped_and_the_rows_are_played(make, folder, tmp_path, capsys):
    out = tmp_path / "tasks.jsonl"

    assert make(folder, "--commits", "HEAD", "--out", out) == 0

    told = capsys.readouterr().out.splitlines()
    assert [line.split(": ", 1)[1][:45] for line in told[:-1]] == [
        "the diff changes halves.py, a missing file",  # a link, which is not followed
        "no test fails before the change and passes af",
    ]
    assert told[-1] == f"1 tasks, 2 changes dropped: {out}"
    example = FileTask(path=str(out)).example(0)
    assert example.prompt == "half does not halve\n\nOf 3 it makes 3."
    assert example.columns["files"] == {"halves.py": WRONG}

    pool = ProcessHosts(num_workers=1, timeout=60.0)
    try:
        target = "components.environment.repository.Repository"
        host = pool.host(Unbuilt(target, {"timeout": 20.0}))
        host.open([Start(example, 0), Start(example, 1)])
        edit = '<edit path="halves.py"><old>return n</old><new>return n / 2</new></edit>'
        host.step({0: edit, 1: "<run/>"})
        ends = host.step({0: "<submit/>", 1: "<submit/>"})
        host.close()
    finally:
        pool.close()
    assert [(ends[each].reward, ends[each].done) for each in (0, 1)] == [(1.0, True), (0.0, True)]


def test_diffs_have_their_issues_beside_them(make, folder, tmp_path, capsys):
    git(folder, "checkout", "HEAD~2")
    diff, out = tmp_path / "half.diff", tmp_path / "tasks.jsonl"
    hunk = "--- a/halves.py\n+++ b/halves.py\n@@ -2 +2 @@\n-    return n\n+    return n / 2\n"
    lines = "".join(f"+{line}\n" for line in TESTS.splitlines())
    diff.write_text(f"{hunk}--- /dev/null\n+++ b/test_halves.py\n@@ -0,0 +1,5 @@\n{lines}")

    assert make(folder, diff, "--out", out) == 2
    assert f"{diff}: its issue is missing" in capsys.readouterr().err
    diff.with_suffix(".md").write_text("Halve.")
    assert make(folder, diff, "--out", out) == 0

    row = json.loads(out.read_text())
    assert (row["question"], row["files"]) == ("Halve.", {"halves.py": WRONG})


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([], "name diffs, or --commits A..B, and not both"),
        (["x.diff", "--commits", "HEAD"], "name diffs, or --commits A..B, and not both"),
        (["--commits", "nothing..HEAD"], "git rev-list: "),
        (["no.diff"], "its issue is missing"),
    ],
)
def test_what_cannot_be_read_is_told(make, folder, tmp_path, capsys, words, told):
    assert make(folder, *words, "--out", tmp_path / "tasks.jsonl") == 2
    assert told in capsys.readouterr().err
    assert not (tmp_path / "tasks.jsonl").exists()


def test_a_file_that_is_there_is_not_written_over(make, folder, tmp_path, capsys):
    (tmp_path / "tasks.jsonl").write_text("mine")

    assert make(folder, "--commits", "HEAD", "--out", tmp_path / "tasks.jsonl") == 2
    assert "already exists" in capsys.readouterr().err


def test_without_a_task_it_says_so(make, folder, tmp_path, capsys):
    assert make(folder, "--commits", "HEAD~1..HEAD", "--out", tmp_path / "tasks.jsonl") == 1
    assert "0 tasks, 1 changes dropped" in capsys.readouterr().out
