import json

import pytest

from components.task.benchmark import Benchmark
from rlcomp.errors import ConfigError, DataError
from rlcomp.interfaces.task import Example

KNOWN = {"names": ["sums_test", "sums/test"], "form": "question and answer"}


def written(file, *rows):
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_all_rows_are_held_out(tmp_path):
    written(
        tmp_path / "sums_test.jsonl", *({"problem": f"{n}+1=", "answer": n + 1} for n in range(30))
    )
    task = Benchmark(
        folder=str(tmp_path),
        prompt_fields=["question", "problem"],
        prompt_template="{prompt}?",
        **KNOWN,
    )

    assert len(task) == 30
    assert task.example(1) == Example("1+1=?", "2", "2")
    assert all(task.example(n).is_held_out(task.held_out) for n in range(30))


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        (["sums_test.jsonl", "a/sums_test.jsonl"], "sums_test.jsonl"),
        (["sums/test.jsonl", "a/sums_test.jsonl"], "sums/test.jsonl"),
        (["b/sums_test.jsonl", "a/sums/test.jsonl"], "a/sums/test.jsonl"),
        (["sums/test.jsonl", "sums_test.jsonl"], "sums_test.jsonl"),
    ],
)
def test_the_folder_precedes_its_subfolders_and_the_first_name_the_others(
    tmp_path, files, expected
):
    for file in files:
        written(tmp_path / file, {"question": "1+1=", "answer": "2"})

    task = Benchmark(folder=str(tmp_path), prompt_fields=["question"], **KNOWN)

    assert task.path == str(tmp_path / expected)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (
            {"input": "1+1=", "target": "2"},
            r"own.jsonl:1: the row has no column 'question' or 'problem' and no column 'answer' "
            r"\(known: input, target\); set SUITE.task.prompt_fields=\[input\] "
            r"SUITE.task.answer_field=target, SUITE being",
        ),
        (
            {"problem": "1+1=", "x": "2", "y": "3"},
            r"no column 'answer' .* set SUITE.task.answer_field=COLUMN",
        ),
        ({"q": "1+1=", "answer": "2"}, r"set SUITE.task.prompt_fields=\[q\], SUITE being"),
    ],
)
def test_other_columns_are_reported_with_the_settings_of_a_suite(tmp_path, row, message):
    written(tmp_path / "own.jsonl", row)

    with pytest.raises(DataError, match=message):
        Benchmark(path=str(tmp_path / "own.jsonl"), prompt_fields=["question", "problem"], **KNOWN)


@pytest.mark.parametrize(
    "row",
    [
        {"data": {"q": "1+1="}, "answer": "2"},
        {"messages": [{"role": "user", "content": "1+1="}, {"role": "assistant", "content": "2"}]},
    ],
)
def test_an_inner_column_and_a_conversation_are_read(tmp_path, row):
    written(tmp_path / "own.jsonl", row)

    task = Benchmark(
        path=str(tmp_path / "own.jsonl"), prompt_fields=["question", "data.q"], **KNOWN
    )

    assert (task.example(0).prompt, task.example(0).answer) == ("1+1=", "2")


def test_a_file_of_any_name_by_its_path(tmp_path):
    written(tmp_path / "mine.jsonl", {"text": "1+1=", "answer": "so #### 2"})
    task = Benchmark(
        path=str(tmp_path / "mine.jsonl"),
        prompt_fields=["text", "question"],
        answer_pattern=r"#### (\d+)",
        **KNOWN,
    )

    assert task.example(0).answer == "2"


def test_a_missing_file_is_reported_with_folder_name_and_form(tmp_path):
    with pytest.raises(DataError) as refused:
        Benchmark(folder=str(tmp_path / "data"), prompt_fields=["question"], **KNOWN)

    message = str(refused.value)
    assert f"no file of this benchmark in '{tmp_path}/data' (no such folder)" in message
    assert "with a file named sums_test or sums/test (.jsonl, .jsonl.gz, .parquet)" in message
    assert "its rows hold question and answer" in message
    assert "set path=FILE, or data=FOLDER with" in message
    with pytest.raises(DataError, match=f"in '{tmp_path}'; set path=FILE"):
        Benchmark(folder=str(tmp_path), prompt_fields=["question"], **KNOWN)


def test_a_column_that_no_row_has_is_named(tmp_path):
    written(tmp_path / "sums_test.jsonl", {"asked": "1+1=", "answer": "2"})

    with pytest.raises(DataError, match="the row has no column 'question'"):
        Benchmark(folder=str(tmp_path), prompt_fields=["question", "problem"], **KNOWN)


def test_without_a_usual_name_the_message_names_the_path():
    with pytest.raises(ConfigError, match="path is not set; set path=FILE of problems, whose rows"):
        Benchmark(names=[], form="question and answer", prompt_fields=["question"])


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("sums_test.jsonl", "is a file: data={0}, or set path={1}$"),
        ("b.csv", "file: set path={1}$"),
    ],
)
def test_a_file_in_place_of_a_folder_is_refused(tmp_path, name, message):
    written(tmp_path / name, {"question": "1+1=", "answer": "2"})
    file = tmp_path / name

    with pytest.raises(
        DataError, match=f"data is a folder, and .*{message.format(tmp_path, file)}"
    ):
        Benchmark(folder=str(file), prompt_fields=["question"], **KNOWN)
