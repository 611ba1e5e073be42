import json
import platform
import subprocess
from importlib.metadata import version

import pytest
import torch

from rlcomp.checkpoint.manifest import read_environment
from rlcomp.checkpoint.reader import open_checkpoint
from rlcomp.checkpoint.writer import Checkpoint
from rlcomp.errors import CheckpointError
from rlcomp.files import environment as module
from rlcomp.files.environment import differences, environment

PLACE = {"phase": 0, "step": 1, "total": 1, "trackers": {}}


def git(folder, *words):
    own = ["-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false"]
    return subprocess.run(
        ["git", "-C", str(folder), *own, *words], check=True, capture_output=True, text=True
    ).stdout.strip()


def test_it_tells_versions_threads_and_instruction_set():
    told = environment()

    assert told["torch"] == version("torch")
    assert told["python"] == platform.python_version()
    assert told["threads"] == str(torch.get_num_threads())
    assert told["instruction set"].split() == [
        platform.machine(),
        *torch.backends.cpu.get_cpu_capability().split(),
    ]
    assert all(isinstance(text, str) and text for text in told.values())


def test_a_commit_is_told_and_whether_files_differ_from_it(tmp_path, monkeypatch):
    assert module._commit(tmp_path) == ""
    monkeypatch.chdir(tmp_path)
    assert "commit" not in environment()
    checkout = tmp_path / "checkout"
    checkout.mkdir()
    git(checkout, "init", "-q")
    (checkout / "a").write_text("1")
    git(checkout, "add", "a")
    git(checkout, "commit", "-q", "-m", "one")
    git(checkout, "tag", "-a", "v1", "-m", "one")
    head = git(checkout, "rev-parse", "HEAD")
    module._commit.cache_clear()

    monkeypatch.chdir(checkout)
    assert environment()["commit"] == head
    module._commit.cache_clear()
    (checkout / "a").write_text("2")
    assert environment()["commit"] == head + "+"


def test_a_missing_package_and_git_are_told(tmp_path, monkeypatch):
    assert module._version("no-such-package") == "not installed"
    monkeypatch.setenv("PATH", str(tmp_path))
    module._commit.cache_clear()
    assert module._commit(tmp_path) == ""
    module._commit.cache_clear()


def test_only_what_both_tell_can_differ():
    then = {"torch": "1", "GPU": "none", "gone": "x"}

    assert differences(then, {"torch": "2\x1b", "GPU": "none", "new": "y"}) == [
        "torch was '1', is '2\\x1b'"
    ]


def saved_in(tmp_path, **changes):
    path = Checkpoint(directory=str(tmp_path), keep=1).save({}, PLACE)
    file = path / "manifest.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))
    return path


def test_a_checkpoint_tells_where_it_was_written(tmp_path):
    assert read_environment(saved_in(tmp_path)) == environment()


def test_of_an_older_checkpoint_torch_and_threads_are_known(tmp_path):
    path = saved_in(tmp_path)
    manifest = json.loads((path / "manifest.json").read_text())
    del manifest["environment"]
    (path / "manifest.json").write_text(json.dumps(manifest))

    threads = str(torch.get_num_threads())
    assert read_environment(open_checkpoint(path).path) == {
        "torch": torch.__version__,
        "threads": threads,
    }


@pytest.mark.parametrize("told", [{"torch": "x" * 200}, {str(n): "x" for n in range(64)}])
def test_an_environment_as_long_as_may_be_is_taken(tmp_path, told):
    path = saved_in(tmp_path, environment=told)

    assert open_checkpoint(path).path == path
    assert read_environment(path) == told


@pytest.mark.parametrize(
    "told", [3, {"torch": 3}, {"torch": "x" * 201}, {str(n): "x" for n in range(65)}]
)
def test_an_environment_that_is_none_is_refused(tmp_path, told):
    with pytest.raises(CheckpointError, match="'environment' "):
        open_checkpoint(saved_in(tmp_path, environment=told))
