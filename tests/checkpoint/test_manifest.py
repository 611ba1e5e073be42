"""The manifest of a checkpoint: which files it lists, and what is refused of a stranger's."""

import hashlib
import json
import os

import pytest

from rlcomp.checkpoint.manifest import check_files, read_environment, write_manifest
from rlcomp.errors import CheckpointError
from rlcomp.files.digests import file_digest


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "step-00000001"
    path.mkdir()
    (path / "tensors.safetensors").write_bytes(b"12")
    (path / "state.json").write_bytes(b"{}")
    (path / "config.yaml").write_bytes(b"")
    write_manifest(path)
    return path


def rewrite(folder, **changes):
    file = folder / "manifest.json"
    manifest = json.loads(file.read_text()) | changes
    file.write_text(json.dumps({key: value for key, value in manifest.items() if value != "gone"}))


def test_sizes_and_digests_of_all_files_are_written(folder):
    manifest = json.loads((folder / "manifest.json").read_text())

    assert manifest["format"] == 1
    assert manifest["files"] == {
        "config.yaml": [0, hashlib.sha256(b"").hexdigest()],
        "state.json": [2, hashlib.sha256(b"{}").hexdigest()],
        "tensors.safetensors": [2, hashlib.sha256(b"12").hexdigest()],
    }
    check_files(folder)


def test_a_checkpoint_needs_no_config(folder):
    for name in ("config.yaml", "manifest.json"):
        (folder / name).unlink()
    write_manifest(folder)

    check_files(folder)


@pytest.mark.parametrize("name", ["tensors.safetensors", "state.json", "config.yaml"])
def test_each_file_is_there_and_as_it_was_written(folder, name):
    file = folder / name
    text = file.read_bytes()
    for other in (text + b" ", text[::-1] + b"!"):
        file.write_bytes(other)
        with pytest.raises(CheckpointError, match=f"{file} is not what was written"):
            check_files(folder)
    file.write_bytes(text)
    check_files(folder)
    file.unlink()
    with pytest.raises(CheckpointError, match=f"{file} is missing"):
        check_files(folder)


def test_a_file_of_the_same_size_is_told_by_its_digest(folder):
    (folder / "state.json").write_bytes(b"[]")

    with pytest.raises(CheckpointError, match=r"state\.json is not what was written"):
        check_files(folder)


def test_what_is_not_listed_and_what_is_no_file_is_refused(folder):
    other = folder / "aaa"
    other.write_text("")
    with pytest.raises(CheckpointError, match=f"{other} is not of this checkpoint"):
        check_files(folder)
    other.unlink()
    for make in (lambda: other.mkdir(), lambda: other.symlink_to(folder / "state.json")):
        make()
        with pytest.raises(CheckpointError, match=f"{other} is a link or no file"):
            check_files(folder)
        other.unlink() if other.is_symlink() else other.rmdir()
    os.mkfifo(other)
    with pytest.raises(CheckpointError, match=f"{other} is a link or no file"):
        check_files(folder)


def test_a_checkpoint_is_a_folder_of_its_own(folder, tmp_path):
    link, file = tmp_path / "link", tmp_path / "file"
    link.symlink_to(folder)
    file.write_text("")

    for path in (link, file):
        with pytest.raises(CheckpointError, match=f"{path} is not a directory"):
            check_files(path)
    (folder / "manifest.json").unlink()
    with pytest.raises(CheckpointError, match=r"manifest.json is missing"):
        check_files(folder)


def test_of_one_that_is_not_there_the_last_eight_are_named(tmp_path):
    with pytest.raises(CheckpointError, match=r"is not there; .* has no checkpoint"):
        check_files(tmp_path / "step-00000011")
    for number in range(1, 11):
        (tmp_path / f"step-{number:08d}").mkdir()

    names = ", ".join(f"step-{number:08d}" for number in range(3, 11))
    with pytest.raises(CheckpointError, match=f"is not there; {tmp_path} has {names}$"):
        check_files(tmp_path / "step-00000011")


OF_STATE = [2, hashlib.sha256(b"{}").hexdigest()]


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"format": 2}, "format 2, this version reads format 1"),
        ({"format": "gone"}, "'format'"),
        ({"threads": 0}, "'threads'"),
        ({"torch": 2}, "'torch'"),
        ({"files": {"state.json": OF_STATE}}, "'files' are state.json"),
        (
            {"files": dict.fromkeys(("state.json", "tensors.safetensors", "x"), OF_STATE)},
            "'files' are state.json, tensors.safetensors, x",
        ),
        (
            {"files": {"state.json": OF_STATE, "tensors.safetensors": [2, "0" * 63]}},
            "the checksum of 'tensors.safetensors'",
        ),
        (
            {"files": {"state.json": OF_STATE, "tensors.safetensors": [-1, "0" * 64]}},
            "'tensors.safetensors'",
        ),
        ({"environment": {"a": "x" * 201}}, "'environment' is longer"),
        ({"environment": dict.fromkeys(map(str, range(65)), "x")}, "'environment' is longer"),
        ({"environment": {"a": 1}}, "'environment'"),
    ],
)
def test_a_manifest_that_no_run_writes_is_refused_by_its_field(folder, changes, told):
    rewrite(folder, **changes)

    with pytest.raises(CheckpointError, match=rf"{folder}/manifest.json: .*{told}"):
        check_files(folder)


def test_an_environment_has_at_most_64_words_of_200_characters(folder):
    told = {str(number): "x" * 200 for number in range(64)}
    rewrite(folder, environment=told)

    check_files(folder)
    assert read_environment(folder) == told
    rewrite(folder, environment="gone", torch="2.0", threads=3)
    assert read_environment(folder) == {"torch": "2.0", "threads": "3"}


def test_a_digest_is_of_the_whole_file(tmp_path):
    file = tmp_path / "file"
    text = b"1" * (1 << 20) + b"2"
    file.write_bytes(text)

    assert file_digest(file) == hashlib.sha256(text).hexdigest()
