import os
import threading
import time

import pytest

from rlcomp.errors import DataError
from rlcomp.text import untrusted_input as module
from rlcomp.text.untrusted_input import (
    JSON_FILES,
    call_within,
    check_regular,
    json_object,
    untrusted_call,
)
from rlcomp.workers.executor import FailedCall

SIZES = {
    **dict.fromkeys(JSON_FILES, 1 << 24),
    **dict.fromkeys(("tokenizer.json", "vocab.txt", "merges.txt", "a.model"), 1 << 27),
    "a.tiktoken": 1 << 27,
    "chat.jinja": 1 << 18,
}


def sized(file, size):
    with file.open("wb") as opened:
        opened.truncate(size)


@pytest.mark.parametrize("name", SIZES)
@pytest.mark.parametrize("place", [".", "additional_chat_templates"])
def test_each_file_has_a_largest_size(tmp_path, name, place):
    file = tmp_path / place / name
    file.parent.mkdir(exist_ok=True)
    sized(file, SIZES[name])
    check_regular(tmp_path)
    sized(file, SIZES[name] + 1)

    with pytest.raises(
        DataError, match=f"{file} cannot be read: it is larger than {SIZES[name]:,}"
    ):
        check_regular(tmp_path)


def test_other_files_have_no_limit_and_other_folders_are_not_read(tmp_path):
    sized(tmp_path / "model.safetensors", 1 << 40)
    (tmp_path / "deep").mkdir()
    os.mkfifo(tmp_path / "deep" / "a")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")

    check_regular(tmp_path)


def test_a_fifo_raises_with_its_kind_and_a_link_with_its_target(tmp_path):
    os.mkfifo(tmp_path / "deep")
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "a").symlink_to(tmp_path / "deep")

    with pytest.raises(DataError, match=rf"folder/a is a FIFO \({tmp_path}/deep\), but"):
        check_regular(folder)
    (folder / "a").unlink()
    (folder / "b").symlink_to("/dev/null")
    with pytest.raises(DataError, match=r"folder/b is a device \(/dev/null\), but"):
        check_regular(folder)
    with pytest.raises(DataError, match=r"/deep is a FIFO, but"):
        check_regular(tmp_path)


def test_a_folder_is_checked_up_to_its_ten_thousandth_entry(tmp_path, monkeypatch):
    assert module._MOST_ENTRIES == 10_000
    monkeypatch.setattr(module, "_MOST_ENTRIES", 2)
    for name in "abc":
        (tmp_path / name).write_text("")

    assert len([*module._entries(tmp_path)]) == 2


@pytest.mark.parametrize("text", ["[]", "3", "{", '{"a": 1, "a": 2}', '{"a": NaN}', "", "\xff"])
def test_json_without_an_object_raises(tmp_path, text):
    file = tmp_path / "config.json"
    file.write_bytes(text.encode("latin-1"))

    with pytest.raises(DataError, match=rf"{file} cannot be read \("):
        json_object(file)


def test_an_object_may_hold_infinities(tmp_path):
    file = tmp_path / "mine.json"
    file.write_text('{"a": Infinity, "b": -Infinity, "c": [1]}')

    assert json_object(file) == {"a": float("inf"), "b": float("-inf"), "c": [1]}
    file.write_text('{"a": 1}' + " " * ((1 << 24) - 8))
    assert json_object(file) == {"a": 1}
    with file.open("a") as opened:
        opened.write(" ")
    with pytest.raises(DataError, match="larger than 16,777,216 bytes"):
        json_object(file)


class Pool:
    """One that answers as it is told to."""

    def __init__(self, outcome):
        self.outcome, self.asked = outcome, []

    def map(self, function, calls, timeout):
        self.asked.append((function, calls, timeout))
        return [self.outcome]


@pytest.fixture
def answer(monkeypatch):
    def use(outcome):
        pool = Pool(outcome)
        monkeypatch.setattr(module, "_pool", lambda process: pool)
        return pool

    return use


def call():
    return untrusted_call("a.b", {"x": 1}, seconds=2.5, subject="the file", remedy="mend it")


def test_untrusted_call_returns_the_value(answer):
    pool = answer(type("Value", (), {"value": {"y": 2}})())

    assert call() == {"y": 2}
    assert pool.asked == [("a.b", [{"x": 1}], 2.5)]


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        ("time", "the file takes more than 2.5 s to read: mend it"),
        ("memory", "the file takes more than 4 GiB to read: mend it"),
        ("output", "the file makes more than 100,663,296 characters: mend it"),
        ("error", "the file cannot be read (it is bad): mend it"),
    ],
)
def test_each_limit_raises_its_message(answer, kind, told):
    answer(FailedCall(kind, "it is bad"))

    with pytest.raises(DataError) as error:
        call()
    assert str(error.value) == told


def test_a_process_has_one_pool(monkeypatch):
    made = []
    monkeypatch.setattr(module, "WorkerPool", lambda **limits: made.append(limits) or limits)
    module._pool.cache_clear()
    try:
        assert module._pool(1) is module._pool(1)
        assert module._pool(2) is not made[0]
    finally:
        module._pool.cache_clear()
    assert made == [{"num_workers": 1, "memory_gib": 4.0, "output_limit": 100_663_296}] * 2


def test_a_call_in_time_returns_or_raises():
    def broken():
        raise KeyboardInterrupt("now")

    assert call_within(5.0, lambda: None) is None
    with pytest.raises(KeyboardInterrupt, match="now"):
        call_within(5.0, broken)


def test_a_call_out_of_time_goes_on_in_a_daemon_thread():
    threads, release = [], threading.Event()

    def slow():
        threads.append(threading.current_thread())
        release.wait(20)

    start = time.monotonic()
    with pytest.raises(TimeoutError, match=r"more than 0\.05 s"):
        call_within(0.05, slow)
    release.set()

    assert time.monotonic() - start < 10
    assert threads[0].daemon
