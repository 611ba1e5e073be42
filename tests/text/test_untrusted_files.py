"""Files of a folder that somebody else wrote: their sizes, kinds and JSON."""

import os

import pytest

from rlcomp.errors import DataError
from rlcomp.text import untrusted_input as module
from rlcomp.text.untrusted_input import JSON, check_regular, json_object

SIZES = {
    **dict.fromkeys(JSON, 1 << 24),
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


def test_of_other_files_any_size_is_read_and_other_folders_are_not(tmp_path):
    sized(tmp_path / "model.safetensors", 1 << 40)
    (tmp_path / "deep").mkdir()
    os.mkfifo(tmp_path / "deep" / "a")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")

    check_regular(tmp_path)


def test_a_fifo_is_refused_by_its_kind_and_a_link_by_what_it_leads_to(tmp_path):
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


def test_a_folder_is_looked_at_to_its_ten_thousandth_entry(tmp_path, monkeypatch):
    assert module._MOST == 10_000
    monkeypatch.setattr(module, "_MOST", 2)
    for name in "abc":
        (tmp_path / name).write_text("")

    assert len([*module._entries(tmp_path)]) == 2


@pytest.mark.parametrize("text", ["[]", "3", "{", '{"a": 1, "a": 2}', '{"a": NaN}', "", "\xff"])
def test_what_is_no_object_is_refused(tmp_path, text):
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
