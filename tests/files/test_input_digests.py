import hashlib
import os
import shutil

import pytest

from rlcomp.files import digests
from rlcomp.files.digests import digest_changes, input_digests

FORGED = "0" * 64


def only(file, known=None):
    return input_digests({"data": {str(file): file}}, known)["data"][str(file)]


@pytest.fixture
def large(tmp_path, monkeypatch):
    """A file that counts as large, and was not touched for long."""
    monkeypatch.setattr(digests, "LARGE", 8)
    monkeypatch.setattr(digests, "_CLOCK_NANOSECONDS", -(10**12))
    file = tmp_path / "weights"
    file.write_bytes(b"12345678")
    return file


def forged(file):
    """What was recorded of a file, under another digest: it is taken only without reading."""
    return {"data": {str(file): FORGED + only(file)[64:]}}


def test_it_is_the_sha_256_of_all_bytes(tmp_path):
    file = tmp_path / "rows"
    file.write_bytes(b"x" * 3_000_000)

    assert only(file) == hashlib.sha256(b"x" * 3_000_000).hexdigest()


def test_a_large_file_that_nothing_touched_is_not_read_again(large):
    assert only(large, forged(large)).startswith(FORGED)


def rewritten(file):
    file.write_bytes(b"12345679")


def replaced(file):
    file.with_name("new").write_bytes(b"12345679")
    os.replace(file.with_name("new"), file)


def copied_back(file):
    shutil.copy2(file, file.with_name("copy"))
    os.replace(file.with_name("copy"), file)


def lengthened(file):
    with file.open("ab") as opened:
        opened.write(b"9")


@pytest.mark.parametrize("change", [rewritten, replaced, copied_back, lengthened])
def test_one_that_was_touched_is_read_whatever_its_time_says(large, change):
    known, before = forged(large), large.stat()
    change(large)
    os.utime(large, ns=(before.st_atime_ns, before.st_mtime_ns))

    assert only(large, known).split()[0] == hashlib.sha256(large.read_bytes()).hexdigest()


def test_one_that_was_touched_just_now_is_read_next_time(large, monkeypatch):
    monkeypatch.setattr(digests, "_CLOCK_NANOSECONDS", 10**12)

    assert only(large) == hashlib.sha256(b"12345678").hexdigest()


def test_a_small_file_is_always_read(large, monkeypatch):
    known = forged(large)
    monkeypatch.setattr(digests, "LARGE", 9)

    assert only(large, known) == hashlib.sha256(b"12345678").hexdigest()


def test_what_cannot_be_read_is_told_apart(tmp_path):
    assert only(tmp_path / "none") == "unreadable"


def test_a_mark_is_no_part_of_the_content(large):
    now = input_digests({"data": {"a": large}})
    then = {"data": {"a": now["data"]["a"].split()[0]}}

    assert [*digest_changes(then, now)] == []


def test_what_only_one_config_names_was_not_changed():
    assert [*digest_changes({"a": {"a": FORGED}}, {"b": {"b": FORGED}})] == []


def test_a_file_is_large_from_64_mebibytes_on():
    assert digests.LARGE == 64 * 1024 * 1024


def test_a_file_that_was_touched_some_seconds_ago_is_not_read_again(tmp_path, monkeypatch):
    monkeypatch.setattr(digests, "LARGE", 8)
    file = tmp_path / "weights"
    file.write_bytes(b"12345678")
    now = file.stat().st_ctime_ns

    for seconds, marked in [(1, False), (5, True)]:
        monkeypatch.setattr(digests.time, "time_ns", lambda s=seconds: now + s * 10**9)
        assert (len(only(file).split()) == 2) is marked
