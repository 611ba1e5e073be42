import gzip
import re
import subprocess
import sys

import pytest

from rlcomp.data import records
from rlcomp.data.records import Row, read_rows
from rlcomp.errors import DataError


def rows_of(file, *columns) -> list[Row]:
    return list(read_rows(str(file), set(columns)))


def parquet_of(folder, columns, **how):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(pyarrow.table(columns), folder / "a.parquet", **how)
    return folder / "a.parquet"


def test_json_lines_are_read_in_order_with_their_place(tmp_path):
    file = tmp_path / "a.jsonl"
    file.write_text('{"q": 1}\n\n{"q": 2}\n')

    assert rows_of(file) == [(f"{file}:1", {"q": 1}), (f"{file}:3", {"q": 2})]


def test_compressed_json_lines_are_read(tmp_path):
    file = tmp_path / "a.jsonl.gz"
    file.write_bytes(gzip.compress('{"q": "né"}\n'.encode()))

    assert [found.columns for found in rows_of(file)] == [{"q": "né"}]


def test_a_byte_order_mark_is_no_part_of_the_data(tmp_path):
    file = tmp_path / "a.jsonl"
    file.write_bytes(b'\xef\xbb\xbf{"q": 1}\n')

    assert rows_of(file)[0].columns == {"q": 1}


def test_parquet_is_read(tmp_path):
    file = parquet_of(tmp_path, {"q": ["a", "b"]})

    assert rows_of(file, "q") == [(f"{file}: row 1", {"q": "a"}), (f"{file}: row 2", {"q": "b"})]


def test_of_parquet_only_the_needed_columns_are_read(tmp_path):
    file = parquet_of(tmp_path, {"q": ["a"], "image": [b"..."]})

    assert rows_of(file, "q")[0].columns == {"q": "a"}


def test_of_parquet_every_column_is_read_where_none_is_named(tmp_path):
    file = parquet_of(tmp_path, {"q": ["a"], "level": [3]})

    assert [found.columns for found in read_rows(str(file))] == [{"q": "a", "level": 3}]


def test_a_column_that_parquet_has_twice_is_named(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    table = pyarrow.table([["a"], ["b"], ["c"]], names=["q", "level", "q"])
    parquet.write_table(table, tmp_path / "a.parquet")

    for columns in ({"q"}, {"level"}, None):
        with pytest.raises(DataError, match=r"a\.parquet: it has the column 'q' twice"):
            list(read_rows(str(tmp_path / "a.parquet"), columns))


def test_a_row_group_that_no_memory_holds_is_not_unpacked(tmp_path, monkeypatch):
    # 6 MB of zeros, which pack to some kilobytes, in the second of two groups; a short column.
    texts = ["a", "b" * 1_000_000, "c" * 5_000_000]
    file = parquet_of(tmp_path, {"q": texts, "n": [1, 2, 3]}, compression="zstd", row_group_size=2)
    assert file.stat().st_size < 10_000
    monkeypatch.setattr(records, "_LARGEST_GROUP", 4_000_000)

    with pytest.raises(DataError, match=r"row group 2 has 5,000,\d\d\d bytes, unpacked, more than"):
        rows_of(file, "q")
    assert [row.columns["n"] for row in rows_of(file, "n")] == [1, 2, 3]
    monkeypatch.setattr(records, "_LARGEST_GROUP", 6_000_000)
    assert [len(row.columns["q"]) for row in rows_of(file, "q")] == [1, 1_000_000, 5_000_000]


def test_the_limit_of_a_row_group_is_4_gibibytes():
    assert records._LARGEST_GROUP == 4_294_967_296


def test_an_archive_that_exhausts_memory_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(records, "_ALWAYS_ALLOWED", 1000)
    file = tmp_path / "a.jsonl.gz"
    file.write_bytes(gzip.compress(b'{"q": 1}\n' * 20_000))
    packed = file.stat().st_size
    assert 200 * packed < 9 * 20_000

    with pytest.raises(DataError, match="it unpacks to more than 200 times its size"):
        rows_of(file)
    # As much as may be unasked, and unpacked there is no limit.
    monkeypatch.setattr(records, "_ALWAYS_ALLOWED", 9 * 20_000)
    assert len(rows_of(file)) == 20_000
    monkeypatch.setattr(records, "_ALWAYS_ALLOWED", 1000)
    (tmp_path / "a.jsonl").write_bytes(b'{"q": 1}\n' * 20_000)
    assert len(rows_of(tmp_path / "a.jsonl")) == 20_000


def test_parquet_without_rows_is_refused(tmp_path):
    with pytest.raises(DataError, match="is empty"):
        rows_of(parquet_of(tmp_path, {"q": []}), "q")


def test_parquet_rows_are_numbered_through_all_batches(tmp_path):
    # 64 batches of 1,024 rows, and two more.
    file = parquet_of(tmp_path, {"n": list(range(65_538))})

    assert rows_of(file, "n")[-1] == (f"{file}: row 65538", {"n": 65_537})


def test_a_missing_file_names_the_nearest_one_there(tmp_path):
    (tmp_path / "gsm8k_train.jsonl").write_text("{}\n")

    with pytest.raises(DataError, match=r"no file .*; did you mean '.*gsm8k_train.jsonl'\?"):
        rows_of(tmp_path / "gsm8k_trian.jsonl")


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("openai/gsm8k", "; a data set of the Hugging Face hub is task=hub task.name=openai/gsm8k"),
        ("data/train.csv", "has nothing of a similar name"),
        ("here/gsm8k", "has nothing of a similar name"),
        ("gsm8k", "has nothing of a similar name"),
        ("a/b/c", "has nothing of a similar name"),
    ],
)
def test_a_name_of_the_hub_is_refused_with_the_hub_task(tmp_path, monkeypatch, path, told):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "here").mkdir()

    with pytest.raises(DataError, match=re.escape(told)):
        rows_of(path)


def test_a_missing_folder_names_the_nearest_one_there(tmp_path):
    (tmp_path / "math").mkdir()

    with pytest.raises(DataError, match=r"did you mean '.*math'"):
        rows_of(tmp_path / "maths" / "a.jsonl")


def test_a_missing_file_with_nothing_alike_names_the_folder(tmp_path):
    with pytest.raises(DataError, match="nothing of a similar name"):
        rows_of(tmp_path / "a.jsonl")


@pytest.mark.parametrize("name", ["a.csv", "a.json", "a"])
def test_another_kind_of_file_lists_the_known_kinds(tmp_path, name):
    (tmp_path / name).write_text("{}")

    with pytest.raises(DataError, match=r"known kind \(.jsonl, .jsonl.gz, .parquet\)"):
        rows_of(tmp_path / name)


def test_a_folder_is_no_file(tmp_path):
    with pytest.raises(DataError, match="not a file of a known kind"):
        rows_of(tmp_path)


@pytest.mark.parametrize("content", ["", "\n \n"])
def test_a_file_without_rows_is_refused(tmp_path, content):
    file = tmp_path / "a.jsonl"
    file.write_text(content)

    with pytest.raises(DataError, match="is empty"):
        rows_of(file)


@pytest.mark.parametrize("line", ['{"q": ', "1 2", '{"q": 1} {"q": 2}', "9" * 5000, "[" * 100_000])
def test_a_malformed_line_is_named(tmp_path, line):
    file = tmp_path / "a.jsonl"
    file.write_text(f'{{"q": 1}}\n{line}\n')

    with pytest.raises(DataError, match=r"a.jsonl:2: not JSON"):
        rows_of(file)


@pytest.mark.parametrize("line", ["[1]", '"text"', "null"])
def test_a_line_that_is_no_object_is_named(tmp_path, line):
    file = tmp_path / "a.jsonl"
    file.write_text(line)

    with pytest.raises(DataError, match=r"a.jsonl:1: .* is not an object"):
        rows_of(file)


def test_bytes_that_are_no_text_are_refused(tmp_path):
    file = tmp_path / "a.jsonl"
    file.write_bytes(b'{"q": "a"}\n{"q": "\xff"}\n')

    told = r"a.jsonl:2: byte 8 of the line \(0xff\) is not UTF-8: save the file as UTF-8"
    with pytest.raises(DataError, match=told):
        rows_of(file)


def test_another_encoding_is_refused_with_its_line(tmp_path):
    file = tmp_path / "a.jsonl"
    file.write_bytes('{"q": "a"}\n'.encode("utf-16"))

    with pytest.raises(DataError, match=r"a.jsonl:1: byte 1 of the line \(0xff\) is not UTF-8"):
        rows_of(file)


@pytest.mark.parametrize("packed", [False, True])
def test_a_line_above_the_limit_is_refused_with_its_number(tmp_path, monkeypatch, packed):
    monkeypatch.setattr(records, "_LONGEST_LINE", 1 << 20)
    limit = b'{"q": "%s"}' % (b"x" * ((1 << 20) - 9 - 1)) + b"\n"
    assert len(limit) == 1 << 20
    file = tmp_path / ("a.jsonl.gz" if packed else "a.jsonl")

    def write(data):
        file.write_bytes(gzip.compress(data, 1) if packed else data)

    write(limit * 2)
    assert len(rows_of(file)) == 2
    write(limit + b" " + limit)
    with pytest.raises(DataError, match=r":2: the line is longer than 1 MiB: each line must be"):
        rows_of(file)


def test_the_limit_of_a_line_is_64_mebibytes():
    assert records._LONGEST_LINE == 67_108_864


def test_columns_given_twice_are_counted_by_row_and_the_last_one_counts(tmp_path):
    file = tmp_path / "a.jsonl"
    file.write_text(
        '{"q": 1}\n{"q": 1, "q": 2, "a": 3, "a": 4}\n{"q": {"x": 1, "x": 2}}\n{"q": 5, "b": 5}\n'
    )

    with pytest.warns(match=r"whose last value counts: 2 \(first: .*a.jsonl:2\)$") as told:
        rows = [found.columns for found in rows_of(file)]
    assert rows == [{"q": 1}, {"q": 2, "a": 4}, {"q": {"x": 2}}, {"q": 5, "b": 5}]
    assert len(told) == 1


def test_a_damaged_parquet_is_a_data_error(tmp_path):
    file = parquet_of(tmp_path, {"q": ["text"] * 3}, compression="none")
    whole = file.read_bytes()

    told = re.escape(f"{file}: cannot be read as Parquet after row 0: ") + r"\S"
    for place in range(0, len(whole), 3):
        file.write_bytes(whole[:place])
        with pytest.raises(DataError, match=f"^{told}"):
            rows_of(file, "q")
        file.write_bytes(whole[:place] + bytes([whole[place] ^ 0xFF]) + whole[place + 1 :])
        try:
            found = str([row.columns for row in rows_of(file, "q")])
        except DataError as error:
            found = str(error)
        # A byte that says nothing of the values, as one of a checksum, may be any.
        assert found == str([{"q": "text"}] * 3) or re.match(told, found)


def test_a_parquet_with_text_that_is_none_is_a_data_error(tmp_path):
    file = parquet_of(tmp_path, {"q": ["text"]}, compression="none", use_dictionary=False)
    file.write_bytes(file.read_bytes().replace(b"text", b"te\xfft"))

    with pytest.raises(DataError, match=r"a.parquet: cannot be read as Parquet after row 0: .*utf"):
        rows_of(file, "q")


@pytest.mark.parametrize(
    "content",
    [b"no gzip", gzip.compress(b'{"q": 1}\n' * 99)[:-12]],
    ids=["no gzip", "cut short"],  # a gzip holds the time it was made: no name for a test
)
def test_a_damaged_archive_is_refused(tmp_path, content):
    file = tmp_path / "a.jsonl.gz"
    file.write_bytes(content)

    with pytest.raises(DataError, match="cannot be read"):
        rows_of(file)


def test_damaged_parquet_is_refused(tmp_path):
    pytest.importorskip("pyarrow")
    file = tmp_path / "a.parquet"
    file.write_bytes(b"no parquet at all")

    with pytest.raises(DataError, match="cannot be read as Parquet"):
        rows_of(file)


def test_bad_data_is_found_before_torch_is_loaded():
    code = "import sys, rlcomp.data.column_mapping; sys.exit('torch' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_first_line_that_opens_an_object_is_named_in_the_message(tmp_path):
    file = tmp_path / "rows.jsonl"
    file.write_text("{\n")

    with pytest.raises(DataError, match=r"each line must be one object$"):
        rows_of(file)


def test_a_pattern_is_all_its_files_by_name(tmp_path):
    (tmp_path / "b.jsonl").write_text('{"q": 2}\n')
    (tmp_path / "a.jsonl").write_text('{"q": 1}\n')
    (tmp_path / "c.txt").write_text("no rows")

    found = rows_of(tmp_path / "*.jsonl")

    assert found == [(f"{tmp_path}/a.jsonl:1", {"q": 1}), (f"{tmp_path}/b.jsonl:1", {"q": 2})]
