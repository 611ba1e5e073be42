"""Tasks from files and data sets."""

import json
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from components.task.file import FileTask, HubTask
from rlcomp.errors import ConfigError, DataError
from rlcomp.interfaces.task import Example

PATTERN = OmegaConf.load(Path(__file__).parents[3] / "conf" / "task" / "gsm8k.yaml").answer_pattern


@pytest.fixture
def path(tmp_path) -> str:
    rows = [{"question": f"{n}+1?", "answer": f"It is\n#### {n + 1}", "level": n} for n in (1, 2)]
    file = tmp_path / "sums.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(file)


def test_each_row_is_an_example(path):
    task = FileTask(
        path=path,
        demonstration_field="answer",
        answer_pattern=PATTERN,
        prompt_template="Question: {prompt}\nAnswer: ",
    )

    assert len(task) == 2
    assert task.example(1) == Example(
        "Question: 2+1?\nAnswer: ", "3", "It is\n#### 3", columns={"level": 2}
    )


def test_a_wrong_column_is_refused_at_construction(path):
    with pytest.raises(DataError, match=r"sums.jsonl:1: .*'prompt'"):
        FileTask(path=path, prompt_field="prompt")


def test_a_wrong_template_is_refused_at_construction(path):
    with pytest.raises(ConfigError, match=r"\{lvl\}"):
        FileTask(path=path, prompt_template="{lvl} {prompt}")


def test_gsm8k_is_read_whole_and_its_answers_are_the_final_numbers(shared_data):
    file = shared_data / "math" / "gsm8k_test.jsonl.gz"
    task = FileTask(path=str(file), demonstration_field="answer", answer_pattern=PATTERN)
    final = FileTask(path=str(file), answer_field="final")

    assert len(task) == 260
    assert all(task.example(n).answer == final.example(n).answer for n in range(260))
    assert all("####" in task.example(n).demonstration for n in range(260))


@pytest.mark.parametrize("end", ["", "\n", "\n\n", " ", "  \n \n"])
def test_blanks_after_the_answer_of_gsm8k_are_no_part_of_it(tmp_path, end):
    file = tmp_path / "a.jsonl"
    file.write_text(json.dumps({"question": "q", "answer": f"so\n#### 1,000 USD{end}"}))

    assert FileTask(path=str(file), answer_pattern=PATTERN).example(0).answer == "1,000 USD"


def write(file, count: int) -> None:
    rows = [{"question": f"{n}?", "answer": str(n)} for n in range(count)]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """A Hugging Face cache of the test's own."""
    datasets = pytest.importorskip("datasets")
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    datasets.disable_progress_bars()


def test_a_local_file_is_read_whole(tmp_path):
    write(tmp_path / "a.jsonl", 3)

    task = HubTask(name=str(tmp_path / "a.jsonl"))

    assert len(task) == 3
    assert task.example(2) == Example("2?", "2", "2")


@pytest.mark.usefixtures("cache")
def test_a_local_folder_has_splits(tmp_path):
    folder = tmp_path / "sums"
    folder.mkdir()
    write(folder / "train.jsonl", 3)
    write(folder / "test.jsonl", 2)

    assert len(HubTask(name=str(folder))) == 3
    assert len(HubTask(name=str(folder), split="test")) == 2


@pytest.mark.usefixtures("cache")
def test_a_split_that_is_not_there_is_named(tmp_path):
    folder = tmp_path / "sums"
    folder.mkdir()
    write(folder / "train.jsonl", 3)

    with pytest.raises(DataError, match="split 'dev' cannot be loaded"):
        HubTask(name=str(folder), split="dev")


@pytest.mark.usefixtures("cache")
def test_a_row_that_does_not_fit_is_named(tmp_path):
    folder = tmp_path / "sums"
    folder.mkdir()
    write(folder / "train.jsonl", 3)

    with pytest.raises(DataError, match=r"sums\[train\] row 1: .*'q'"):
        HubTask(name=str(folder), prompt_field="q")


@pytest.mark.usefixtures("cache")
def test_a_data_set_that_is_not_there_is_named(tmp_path):
    with pytest.raises(DataError, match=r"'.*nowhere', split 'train' cannot be loaded"):
        HubTask(name=str(tmp_path / "nowhere"))


@pytest.mark.usefixtures("cache")
def test_other_columns_go_along_without_pictures(tmp_path):
    datasets = pytest.importorskip("datasets")
    columns = {"question": ["1?"], "answer": ["1"], "tests": [["a", "b"]]}
    seen = [{"bytes": b"no picture", "path": None}]
    table = datasets.Dataset.from_dict(columns | {"seen": seen})
    (tmp_path / "data").mkdir()
    table.cast_column("seen", datasets.Image()).to_parquet(tmp_path / "data" / "train.parquet")

    assert HubTask(name=str(tmp_path / "data")).example(0).columns == {"tests": ["a", "b"]}
