"""Files of other kinds are told by what they hold, with a line that makes rows of them."""

import subprocess
import sys

import pytest

from rlcomp.advice.format_hints import converted
from rlcomp.data.records import read_rows
from rlcomp.errors import DataError

ROW = {"q": "1 + 1", "answer": "2"}
TEXT = '{"q": "1 + 1", "answer": "2"}'


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def told(name):
    with pytest.raises(DataError) as raised:
        list(read_rows(name))
    return str(raised.value)


@pytest.mark.parametrize(
    ("name", "content", "what", "made"),
    [
        ("a.json", f"[\n {TEXT}\n]", "it is one JSON array", "a.jsonl"),
        ("a.json", f"\ufeff[{TEXT}]", "it is one JSON array", "a.jsonl"),
        ("my $X `a`.json", f"[{TEXT}]", "it is one JSON array", "my $X `a`.jsonl"),
        ("a.json", f'{{"n": 1,\n"rows": [{TEXT}]}}', "object whose 'rows' holds", "a.jsonl"),
        ("a.json", '{"q": "1 + 1",\n"answer": "2"}', "one object, a single row", "a.jsonl"),
        ("a.jsonl", f"[\n {TEXT}\n]", "it is one JSON array", "a.new.jsonl"),
        ("a.jsonl", f"[{TEXT}]", "it is one JSON array", "a.new.jsonl"),
        ("a.tsv", "\ufeffq\tanswer\n1 + 1\t2\n", "known kind", "a.jsonl"),
        ("a.csv", '\ufeffq,answer\n"1 + 1",2\n', "known kind", "a.jsonl"),
    ],
)
def test_the_line_that_is_told_makes_what_is_read(place, name, content, what, made):
    (place / name).write_text(content, encoding="utf-8")

    message = told(name)
    assert what in message
    line = message[message.index("python -c") :].removesuffix(")" * name.endswith(".jsonl"))
    line, _, last = line.partition(", then task.path=")
    assert last == (made if name.endswith(("csv", "tsv")) else "")
    subprocess.run(line.replace("python", sys.executable, 1), shell=True, check=True)

    (row,) = read_rows(made)
    assert row.columns == ROW


def test_lines_of_another_name_are_only_renamed(place):
    (place / "a.json").write_text(f"{TEXT}\n{TEXT}\n")

    assert told("a.json").endswith("each row has its own line already: mv a.json a.jsonl")


def test_a_folder_of_objects_is_made_one_file(place):
    (place / "many").mkdir()
    for number in range(2):
        (place / "many" / f"{number}.json").write_text(f'{{\n"n": {number}}}')

    message = told("many")
    assert "it is a folder; of files that hold one row each write many.jsonl with" in message
    line = message[message.index("python -c") :].replace("python", sys.executable, 1)
    subprocess.run(line, shell=True, check=True)
    assert [row.columns for row in read_rows("many.jsonl")] == [{"n": 0}, {"n": 1}]


@pytest.mark.parametrize(
    ("names", "what"),
    [
        (
            ["b.jsonl", "a.jsonl"],
            "name a file in it, such as folder/a.jsonl, or all 2 of them, 'folder/*.jsonl'",
        ),
        (["a.txt"], "it is a folder; name a file"),
        (["dataset_info.json", "state.json"], "load_from_disk('folder').to_json('folder.jsonl')"),
        (["dataset_dict.json"], "load_from_disk('folder')['train'].to_json('folder.jsonl')"),
    ],
)
def test_a_folder_is_told_by_what_is_in_it(place, names, what):
    (place / "folder").mkdir()
    for name in names:
        (place / "folder" / name).write_text("")

    assert what in told("folder")


@pytest.mark.parametrize("content", ["", "{", "{}", '{"\'; rm": [{}]}', "7", "{" * 100_000])
def test_of_what_is_no_table_nothing_is_said_of_rows(place, content):
    (place / "a.json").write_text(content)

    assert "holds the rows" not in converted("a.json", (".jsonl",))
    assert "array" not in converted("a.json", (".jsonl",))
