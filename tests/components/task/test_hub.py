import json

import pytest

from components.task.file import HubTask
from rlcomp.errors import DataError
from rlcomp.interfaces.task import Example


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
