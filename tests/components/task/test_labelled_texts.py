"""Texts with labels from a file, and rows that are refused by file and line."""

import json
import math
import re

import pytest
import torch

from components.sampler.labels import LabelledTextsSampler
from components.task.labelled_texts import LabelledTexts
from components.worlds.addition.task import Addition
from rlcomp.data.labelled_rows import label_rows
from rlcomp.errors import ConfigError, DataError, RlcompWarning
from rlcomp.text.tokenizer import byte_tokenizer


def written(folder, *rows):
    file = folder / "texts.jsonl"
    file.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return str(file)


def task(folder, *rows, **settings):
    return LabelledTexts(**{"path": written(folder, *rows), "labels": ["a", "b"], **settings})


def test_labels_are_numbers_or_unknown(tmp_path):
    rows = [{"prompt": "x", "a": 1, "b": None}, {"prompt": "yz", "b": 0.25, "c": 1, "a": False}]

    found = task(tmp_path, *rows, longest=1)

    assert [found.example(n).prompt for n in range(len(found))] == ["x", "y"]
    assert found.example(1).columns == {"labels": {"a": 0.0, "b": 0.25}}
    labels = label_rows([found.example(0), found.example(1)], ["b", "a"])
    assert labels[1].tolist() == [0.25, 0.0]
    assert math.isnan(labels[0, 0])
    assert float(labels[0, 1]) == 1.0


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ({"a": 1}, "column 'prompt' is None: must be a text"),
        ({"prompt": "  ", "a": 1}, "column 'prompt' is '  '"),
        ({"prompt": ["x"], "a": 1}, "must be a text"),
        ({"prompt": "x", "a": 2}, "label 'a' is 2: must be 0, 1 or a probability"),
        ({"prompt": "x", "a": -1}, "label 'a' is -1"),
        ({"prompt": "x", "a": "1"}, "label 'a' is '1'"),
    ],
)
def test_a_bad_row_is_refused_by_file_and_line(row, told, tmp_path):
    with pytest.raises(DataError, match=r"texts\.jsonl:2: .*" + re.escape(told)):
        task(tmp_path, {"prompt": "x", "a": 1, "b": 0}, row)


def test_a_row_without_any_of_the_labels_is_left_out_with_a_warning(tmp_path):
    rows = [{"prompt": "x", "a": 1, "b": 0}, {"prompt": "y", "c": 1}, {"prompt": "z", "a": 0}]

    with pytest.warns(RlcompWarning, match="left out: 1 of 3"):
        found = task(tmp_path, *rows)

    assert [found.example(n).prompt for n in range(len(found))] == ["x", "z"]


def test_a_label_that_no_row_knows_is_refused(tmp_path):
    with pytest.raises(DataError, match="no row has the label 'b'"):
        task(tmp_path, {"prompt": "x", "a": 1})


def test_a_batch_holds_texts_and_their_labels_each_once_an_epoch(tmp_path):
    rows = [{"prompt": "x" * n, "a": n % 2, "b": None if n == 3 else 1} for n in range(1, 7)]
    tokenizer = byte_tokenizer()
    sampler = LabelledTextsSampler(
        task=task(tmp_path, *rows, held_out=0.0),
        labels=["a", "b"],
        tokenizer=tokenizer,
        batch_size=3,
        context_length=16,
    )

    batches = [sampler(None) for _ in range(2)]

    seen = {}
    for batch in batches:
        # The bytes of the text, and EOS.
        lengths = (batch["attention_mask"].sum(1) - 1).tolist()
        seen |= dict(zip(lengths, batch["labels"].nan_to_num(-1).tolist(), strict=True))
    assert seen == {n: [n % 2, -1 if n == 3 else 1] for n in range(1, 7)}
    assert torch.equal(batches[0]["response_mask"].sum(1), torch.ones(3, dtype=torch.int64))


def test_a_task_without_labels_is_refused():
    with pytest.raises(DataError, match="set task=labelled_texts"):
        LabelledTextsSampler(
            task=Addition(),
            labels=["a"],
            tokenizer=byte_tokenizer(),
            batch_size=3,
            context_length=64,
        )


def test_a_task_too_small_for_a_batch_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="batch_size"):
        LabelledTextsSampler(
            task=task(tmp_path, {"prompt": "x", "a": 1, "b": 0}, held_out=0.0),
            labels=["a"],
            tokenizer=byte_tokenizer(),
            batch_size=2,
            context_length=64,
        )
