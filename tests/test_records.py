import gzip
import json
import subprocess
import sys

import pytest

from rlcomp.errors import ConfigError, DataError
from rlcomp.records import Fields, Row, read_rows


def fields(**changes) -> Fields:
    defaults = {
        "prompt_field": "question",
        "answer_field": "answer",
        "demonstration_field": None,
        "answer_pattern": None,
        "prompt_template": "{prompt}",
    }
    return Fields(**{**defaults, **changes})


def row(**columns) -> Row:
    return Row("data.jsonl:7", {"question": "1+1?", "answer": "two #### 2", **columns})


def test_json_lines_are_read_in_order_with_their_place(tmp_path):
    file = tmp_path / "a.jsonl"
    file.write_text('{"q": 1}\n\n{"q": 2}\n')

    assert read_rows(str(file)) == [(f"{file}:1", {"q": 1}), (f"{file}:3", {"q": 2})]


def test_compressed_json_lines_are_read(tmp_path):
    file = tmp_path / "a.jsonl.gz"
    file.write_bytes(gzip.compress('{"q": "né"}\n'.encode()))

    assert [found.columns for found in read_rows(str(file))] == [{"q": "né"}]


def test_a_byte_order_mark_is_no_part_of_the_data(tmp_path):
    file = tmp_path / "a.jsonl"
    file.write_bytes(b'\xef\xbb\xbf{"q": 1}\n')

    assert read_rows(str(file))[0].columns == {"q": 1}


def test_parquet_is_read(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    file = tmp_path / "a.parquet"
    parquet.write_table(pyarrow.table({"q": ["a", "b"]}), file)

    assert [found.columns for found in read_rows(str(file))] == [{"q": "a"}, {"q": "b"}]


def test_a_missing_file_names_the_nearest_one_there(tmp_path):
    (tmp_path / "gsm8k_train.jsonl").write_text("{}\n")

    with pytest.raises(DataError, match=r"no file .*; did you mean '.*gsm8k_train.jsonl'\?"):
        read_rows(str(tmp_path / "gsm8k_trian.jsonl"))


def test_a_missing_folder_names_the_nearest_one_there(tmp_path):
    (tmp_path / "math").mkdir()

    with pytest.raises(DataError, match=r"did you mean '.*math'"):
        read_rows(str(tmp_path / "maths" / "a.jsonl"))


def test_a_missing_file_with_nothing_alike_names_the_folder(tmp_path):
    with pytest.raises(DataError, match="nothing of a similar name"):
        read_rows(str(tmp_path / "a.jsonl"))


@pytest.mark.parametrize("name", ["a.csv", "a.json", "a"])
def test_another_kind_of_file_lists_the_known_kinds(tmp_path, name):
    (tmp_path / name).write_text("{}")

    with pytest.raises(DataError, match=r"known kind \(.jsonl, .jsonl.gz, .parquet\)"):
        read_rows(str(tmp_path / name))


def test_a_folder_is_no_file(tmp_path):
    with pytest.raises(DataError, match="not a file of a known kind"):
        read_rows(str(tmp_path))


@pytest.mark.parametrize("content", ["", "\n \n"])
def test_a_file_without_rows_is_refused(tmp_path, content):
    file = tmp_path / "a.jsonl"
    file.write_text(content)

    with pytest.raises(DataError, match="is empty"):
        read_rows(str(file))


@pytest.mark.parametrize("line", ['{"q": ', "1 2", '{"q": 1} {"q": 2}', "9" * 5000, "[" * 100_000])
def test_a_malformed_line_is_named(tmp_path, line):
    file = tmp_path / "a.jsonl"
    file.write_text(f'{{"q": 1}}\n{line}\n')

    with pytest.raises(DataError, match=r"a.jsonl:2: not JSON"):
        read_rows(str(file))


@pytest.mark.parametrize("line", ["[1]", '"text"', "null"])
def test_a_line_that_is_no_object_is_named(tmp_path, line):
    file = tmp_path / "a.jsonl"
    file.write_text(line)

    with pytest.raises(DataError, match=r"a.jsonl:1: .* is not an object"):
        read_rows(str(file))


def test_bytes_that_are_no_text_are_refused(tmp_path):
    file = tmp_path / "a.jsonl"
    file.write_bytes(b'{"q": "\xff"}\n')

    with pytest.raises(DataError, match="cannot be read"):
        read_rows(str(file))


@pytest.mark.parametrize("content", [b"no gzip", gzip.compress(b'{"q": 1}\n' * 99)[:-12]])
def test_a_damaged_archive_is_refused(tmp_path, content):
    file = tmp_path / "a.jsonl.gz"
    file.write_bytes(content)

    with pytest.raises(DataError, match="cannot be read"):
        read_rows(str(file))


def test_damaged_parquet_is_refused(tmp_path):
    pytest.importorskip("pyarrow")
    file = tmp_path / "a.parquet"
    file.write_bytes(b"no parquet at all")

    with pytest.raises(DataError, match="not a Parquet file"):
        read_rows(str(file))


def test_without_more_ado_the_answer_is_its_column_and_the_demonstration():
    assert fields().texts([row()]) == [("1+1?", "two #### 2", "two #### 2")]


def test_the_pattern_finds_the_answer_and_the_demonstration_keeps_its_column():
    found = fields(answer_pattern=r"####\s*(.+)$", demonstration_field="answer").texts([row()])

    assert found == [("1+1?", "2", "two #### 2")]


def test_without_a_demonstration_column_the_found_answer_is_the_demonstration():
    assert fields(answer_pattern=r"####\s*(.+)$").texts([row()]) == [("1+1?", "2", "2")]


def test_the_template_words_the_prompt_with_any_column():
    template = "[{level}] {prompt} {{sic}}\n"

    found = fields(prompt_template=template).texts([row(level=3)])

    assert found[0].prompt == "[3] 1+1? {sic}\n"


def test_braces_in_the_data_are_left_alone():
    assert fields().texts([row(question="{x} {")])[0].prompt == "{x} {"


def test_a_template_with_an_unknown_column_names_those_there():
    with pytest.raises(ConfigError, match=r"\{leve\}.*did you mean 'level'.*known: answer, level"):
        fields(prompt_template="{leve} {prompt}").texts([row(level=3)])


@pytest.mark.parametrize("template", ["{", "{}", "{0}", "{prompt.x}", "{prompt[0]}", "{prompt:>9}"])
def test_a_template_that_is_not_plain_is_refused(template):
    with pytest.raises(ConfigError, match="prompt_template"):
        fields(prompt_template=template)


def test_a_row_without_the_column_names_line_and_nearest():
    with pytest.raises(DataError, match=r"data.jsonl:7: .*'anser'; did you mean 'answer'"):
        fields(answer_field="anser").texts([row()])


@pytest.mark.parametrize("value", [None, ["2"], {"value": 2}])
def test_a_column_that_holds_no_text_is_refused(value):
    with pytest.raises(DataError, match=r"data.jsonl:7: column 'answer' is .*, not a text"):
        fields().texts([row(answer=value)])


def test_numbers_are_read_as_text():
    assert fields().texts([row(answer=2.5)])[0].answer == "2.5"


def test_a_lone_surrogate_becomes_a_question_mark():
    text = json.loads('"a\\ud800b"')

    assert fields().texts([row(question=text)])[0].prompt == "a?b"


def test_an_answer_that_does_not_match_names_the_line():
    with pytest.raises(DataError, match=r"data.jsonl:7: answer_pattern '== \(.\)' does not match"):
        fields(answer_pattern="== (.)").texts([row()])


def test_a_group_that_took_no_part_is_no_answer():
    with pytest.raises(DataError, match="does not match"):
        fields(answer_pattern="two|(three)").texts([row()])


@pytest.mark.parametrize(("pattern", "words"), [("(", "no regular expression"), ("a", "no group")])
def test_a_pattern_that_cannot_work_is_refused(pattern, words):
    with pytest.raises(ConfigError, match=words):
        fields(answer_pattern=pattern)


def test_bad_data_is_found_before_torch_is_loaded():
    code = "import sys, rlcomp.records; sys.exit('torch' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
