"""Files that may be anything."""

import json
import os
import time
from pathlib import Path

import pytest

from rlcomp.errors import CheckpointError, DataError
from rlcomp.files.run_record import read_failure
from rlcomp.files.untrusted import (
    check_no_aliases,
    parse_json,
    read_bounded,
    read_json,
    read_saved_config,
)
from rlcomp.text.folder import json_object


def test_a_file_is_read_to_its_limit_and_no_further(tmp_path):
    file = tmp_path / "file"
    file.write_bytes(b"1234")

    assert read_bounded(file, 4) == b"1234"
    with pytest.raises(ValueError, match=r"^it is larger than 3 bytes$"):
        read_bounded(file, 3)
    with pytest.raises(FileNotFoundError):
        read_bounded(tmp_path / "none", 3)


@pytest.mark.parametrize("read", [read_json, read_saved_config, check_no_aliases, json_object])
@pytest.mark.parametrize("endless", ["/dev/zero", "fifo", "folder"])
def test_what_is_no_file_is_not_read(tmp_path, read, endless):
    file = tmp_path / "config.json"
    if endless == "fifo":
        os.mkfifo(file)
    elif endless == "folder":
        file.mkdir()
    else:
        file.symlink_to(Path(endless))

    with pytest.raises((CheckpointError, DataError), match="it is not a file"):
        read(file)


def test_a_failure_is_read_to_its_limit(tmp_path):
    (tmp_path / "failure.json").write_text(" " * (1 << 20) + "{}")

    with pytest.raises(ValueError, match="larger than 1,048,576 bytes"):
        read_failure(tmp_path)


def test_the_longest_failure_there_can_be_is_read(tmp_path):
    # As long as the command line tells at most, in characters that JSON writes with twelve bytes.
    rare = "\N{LINEAR B SYLLABLE B008 A}"
    told = {"type": "E", "error": rare * 8_000, "traceback": rare * 32_000}
    (tmp_path / "failure.json").write_text(json.dumps(told))

    assert read_failure(tmp_path) == f"E: {rare * 8_000}"


def test_a_name_that_comes_twice_is_found_among_many_at_once():
    names = ",".join(f'"{number}": 0' for number in range(60_000))
    started = time.perf_counter()

    with pytest.raises(ValueError, match="it has '59999' twice"):
        parse_json(f'{{{names}, "59999": 0}}'.encode())

    assert time.perf_counter() - started < 10
