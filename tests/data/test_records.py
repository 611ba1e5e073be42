import datetime
import gzip
import json
import subprocess
import sys
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlcomp.data.records import Fields, Row, read_rows
from rlcomp.errors import ConfigError, DataError


def fields(**changes) -> Fields:
    defaults = {
        "prompt_field": "question",
        "answer_field": "answer",
        "demonstration_field": None,
        "answer_pattern": None,
        "prompt_template": "{prompt}",
    }
    return Fields(**{**defaults, **changes})


def rows_of(file, *columns) -> list[Row]:
    return list(read_rows(str(file), set(columns)))


def row(**columns) -> Row:
    return Row("data.jsonl:7", {"question": "1+1?", "answer": "two #### 2", **columns})


def parquet_of(folder, columns):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(pyarrow.table(columns), folder / "a.parquet")
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


def test_a_column_that_parquet_lacks_is_named_beside_all_it_has(tmp_path):
    file = parquet_of(tmp_path, {"question": ["a"], "answer": ["b"], "level": [3]})
    wanted = fields(prompt_field="qestion")

    with pytest.raises(DataError, match=r"row 1: .*did you mean 'question'.*answer, level, quest"):
        wanted.texts(read_rows(str(file), wanted.columns))


def test_parquet_without_rows_is_refused(tmp_path):
    with pytest.raises(DataError, match="is empty"):
        rows_of(parquet_of(tmp_path, {"q": []}), "q")


def test_parquet_rows_are_numbered_through_all_batches(tmp_path):
    # pyarrow hands over 65,536 rows at a time.
    file = parquet_of(tmp_path, {"n": list(range(65_538))})

    assert rows_of(file, "n")[-1] == (f"{file}: row 65538", {"n": 65_537})


def test_the_needed_columns_are_those_of_the_fields_and_of_the_template():
    found = fields(prompt_template="{level} {prompt}", demonstration_field="solution").columns

    assert found == {"question", "answer", "solution", "level"}


def test_a_missing_file_names_the_nearest_one_there(tmp_path):
    (tmp_path / "gsm8k_train.jsonl").write_text("{}\n")

    with pytest.raises(DataError, match=r"no file .*; did you mean '.*gsm8k_train.jsonl'\?"):
        rows_of(tmp_path / "gsm8k_trian.jsonl")


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
    file.write_bytes(b'{"q": "\xff"}\n')

    with pytest.raises(DataError, match="cannot be read"):
        rows_of(file)


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


NO_TEXT = [
    (None, r"empty \(null\)"),
    (True, "the bool True"),
    (b"2", "the bytes b'2'"),
    (float("nan"), "the float nan"),
    (float("-inf"), "the float -inf"),
    (Decimal("Infinity"), r"the Decimal Decimal\('Infinity'\)"),
    (datetime.date(2020, 1, 31), r"the date datetime.date\(2020, 1, 31\)"),
    (["2"], r"the list \['2'\]"),
    ({"value": 2}, r"the dict \{'value': 2\}"),
]


@pytest.mark.parametrize("column", ["answer", "question"])
@pytest.mark.parametrize(("value", "shown"), NO_TEXT)
def test_a_column_that_holds_no_text_is_refused(column, value, shown):
    words = rf"data.jsonl:7: column '{column}' is {shown}, not a text or a finite number"
    with pytest.raises(DataError, match=words):
        fields().texts([row(**{column: value})])


def test_not_a_number_in_a_file_is_refused_by_its_line(tmp_path):
    file = tmp_path / "a.jsonl"
    file.write_text('{"question": "q", "answer": 1}\n{"question": "q", "answer": NaN}\n')

    with pytest.raises(DataError, match=r"a.jsonl:2: column 'answer' is the float nan"):
        fields().texts(read_rows(str(file), fields().columns))


NUMBERS = [
    (72, "72"),
    (72.0, "72"),
    (2.5, "2.5"),
    (-0.125, "-0.125"),
    (100.0, "100"),
    (1e22, "10000000000000000000000"),
    (1e-7, "0.0000001"),
    (0.1, "0.1"),
    (Decimal("2.50"), "2.5"),
    (Decimal("1E+3"), "1000"),
]


@pytest.mark.parametrize(("number", "text"), NUMBERS)
def test_numbers_are_read_as_people_write_them(number, text):
    assert fields().texts([row(answer=number)])[0].answer == text


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_number_comes_back_from_its_text(number):
    text = fields().texts([row(answer=number)])[0].answer

    assert float(text) == number
    assert "e" not in text


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
    code = "import sys, rlcomp.data.records; sys.exit('torch' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
