import hashlib
import re

import pytest

from rlcomp.errors import CheckpointError
from rlcomp.files.digests import RunningDigest, read_digest


def written(file, lines):
    digest = RunningDigest()
    with file.open("ab") as opened:
        for line in lines:
            opened.write(line)
            digest.append(line)
    return digest


def test_it_is_the_digest_of_what_was_appended(tmp_path):
    digest = written(tmp_path / "a", [b"one\n", b"three\n"])

    one, both = (hashlib.sha256(text).hexdigest() for text in (b"one\n", b"one\nthree\n"))
    assert digest.marks == [(4, one), (10, both)]
    assert digest.size == 10


def test_nothing_appended_has_no_mark(tmp_path):
    digest = written(tmp_path / "a", [b""])

    assert digest.marks == []
    assert read_digest(tmp_path / "none", 0).marks == []


def test_marks_are_few_and_the_last_is_the_end(tmp_path):
    digest = written(tmp_path / "a", [b"%4d\n" % number for number in range(1000)])

    sizes = [size for size, _ in digest.marks]
    assert len(sizes) == 64
    assert sizes[-1] == digest.size == 5000
    # On average 5000 / 64, 79 bytes: none is more than twice that from the next.
    assert max(after - before for before, after in zip([0, *sizes], sizes, strict=False)) <= 160


def test_it_goes_on_from_a_file_as_if_it_had_never_stopped(tmp_path):
    lines = [b"%4d\n" % number for number in range(300)]
    whole = written(tmp_path / "whole", lines)
    before = written(tmp_path / "a", lines[:170])

    after = read_digest(tmp_path / "a", before.size, before.marks)
    for line in lines[170:]:
        after.append(line)

    assert after.marks == whole.marks


@pytest.mark.parametrize("number", [1, 500, 999, 1000])
def test_a_change_is_told_as_exactly_as_there_are_marks(tmp_path, number):
    file = tmp_path / "a"
    digest = written(file, [b"%4d\n" % line for line in range(1, 1001)])
    file.write_bytes(file.read_bytes().replace(b"%4d\n" % number, b"   x\n"))

    with pytest.raises(CheckpointError) as told:
        read_digest(file, digest.size, digest.marks)

    place = r"lines? (\d+)(?: to (\d+))? \(bytes ([\d,]+) to ([\d,]+)\), is not what the run wrote"
    first, last, start, end = re.search(place, str(told.value)).groups()
    first, last = int(first), int(last or first)
    assert first <= number <= last < first + 32
    assert (start, end) == (f"{5 * (first - 1):,}", f"{5 * last:,}")


def test_the_first_lines_of_a_short_file_are_told_one_by_one(tmp_path):
    file = tmp_path / "a"
    digest = written(file, [b"%4d\n" % line for line in range(1, 65)])
    file.write_bytes(file.read_bytes().replace(b"   7\n", b"   9\n"))

    with pytest.raises(CheckpointError, match=r"line 7 \(bytes 30 to 35\)"):
        read_digest(file, digest.size, digest.marks)


def test_a_file_larger_than_a_block_is_read_whole(tmp_path):
    file = tmp_path / "a"
    digest = written(file, [b"x" * 3_000_000 + b"\n", b"y\n"])

    assert read_digest(file, digest.size, digest.marks).hexdigest() == digest.hexdigest()
    with file.open("r+b") as opened:
        opened.seek(2_500_000)
        opened.write(b"z")
    with pytest.raises(CheckpointError, match=r"line 1 \(bytes 0 to 3,000,001\)"):
        read_digest(file, digest.size, digest.marks)


def test_a_file_without_marks_has_one_at_its_end(tmp_path):
    file = tmp_path / "a"
    file.write_bytes(b"one\ntwo\nthree\n")

    found = read_digest(file, 8)

    whole = hashlib.sha256(b"one\ntwo\n").hexdigest()
    assert (found.size, found.hexdigest(), found.marks) == (8, whole, [(8, whole)])
    found.append(b"x")
    assert [size for size, _ in found.marks] == [8, 9]
