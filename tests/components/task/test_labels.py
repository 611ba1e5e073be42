"""Preferences and labels of texts from files."""

import json
import math
import re

import pytest
import torch

from components.sampler.labels import LabelledTextsSampler
from components.task.labels import LabelledTexts, PreferenceTask
from components.worlds.addition.task import Addition
from rlcomp.data.labelled_rows import label_rows
from rlcomp.data.pairs import pair_rows
from rlcomp.errors import ConfigError, DataError, RlcompWarning
from rlcomp.text.prompt import TextPrompt
from rlcomp.text.tokenizer import byte_tokenizer

PAIR = {"prompt": "1?", "chosen": "yes", "rejected": "no"}
RATED = {"prompt": "1?", "responses": ["a", "b"], "ratings": [1, 2]}


@pytest.fixture
def task(tmp_path):
    """A task of given rows."""

    def made(*rows, **settings):
        file = tmp_path / "prefs.jsonl"
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return PreferenceTask(path=str(file), **settings)

    return made


def test_ties_are_left_out_and_counted(task):
    tie = {**RATED, "ratings": [1, 1]}

    with pytest.warns(
        RlcompWarning, match="answers are all alike, left out: 2 of 3; task.ties=keep"
    ):
        assert len(task(tie, PAIR, tie)) == 1
    with pytest.raises(DataError, match="all of its 1 rows are ties"):
        task(tie)


def test_ties_keep_warns_of_nothing(task, recwarn):
    tied = task(PAIR | {"tie": True}, PAIR, ties="keep")

    assert [one.columns.get("tie") for one in tied.examples] == [True, None]
    assert not recwarn.list


def test_a_bad_row_is_refused_with_file_and_line(task):
    with pytest.raises(DataError, match=r"prefs\.jsonl:2: .*no preference"):
        task(PAIR, {"prompt": "1?", "chosen": "yes"})


def test_settings_reach_the_rows(task):
    hh = "\n\nHuman: a?\n\nAssistant:"
    talk = {"chosen": f"{hh} yes", "rejected": f"{hh} no"}

    assert len(task(RATED)) == 1
    assert len(task(RATED, ratings="each")) == 2
    assert task(RATED, ratings="each").example(1).columns == {"rating": 2.0}
    assert len(task(PAIR | {"tie": True}, ties="keep")) == 1
    assert "conversation" in task(talk, dialogues="messages").example(0).columns
    assert "conversation" not in task(talk).example(0).columns
    assert (
        task({"asked": "2?", "chosen": "y", "rejected": "n"}, prompt_field="asked")
        .example(0)
        .prompt
        == "2?"
    )
    assert (task(PAIR).held_out, task(PAIR, held_out=0.5).held_out) == (0.1, 0.5)


def test_the_pairs_of_hh_become_rows(shared_data):
    task = PreferenceTask(path=str(shared_data / "prefs" / "hh_harmless_300.jsonl.gz"))
    tokenizer = byte_tokenizer()

    rows = pair_rows(tokenizer, TextPrompt(tokenizer=tokenizer), [task.example(n) for n in (0, 1)])

    assert len(task) == 300
    assert all(task.example(n).prompt.endswith("\n\nAssistant:") for n in range(300))
    assert rows["chosen"].tolist() == [True, False, True, False]


def written(folder, *rows):
    file = folder / "texts.jsonl"
    file.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return str(file)


def labelled_task(folder, *rows, **settings):
    return LabelledTexts(**{"path": written(folder, *rows), "labels": ["a", "b"], **settings})


def test_labels_are_numbers_or_unknown(tmp_path):
    rows = [{"prompt": "x", "a": 1, "b": None}, {"prompt": "yz", "b": 0.25, "c": 1, "a": False}]

    result = labelled_task(tmp_path, *rows, longest=1)

    assert [result.example(n).prompt for n in range(len(result))] == ["x", "y"]
    assert result.example(1).columns == {"labels": {"a": 0.0, "b": 0.25}}
    labels = label_rows([result.example(0), result.example(1)], ["b", "a"])
    assert labels[1].tolist() == [0.25, 0.0]
    assert math.isnan(labels[0, 0])
    assert float(labels[0, 1]) == 1.0


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"a": 1}, "column 'prompt' is None: must be a text"),
        ({"prompt": "  ", "a": 1}, "column 'prompt' is '  '"),
        ({"prompt": ["x"], "a": 1}, "must be a text"),
        ({"prompt": "x", "a": 2}, "label 'a' is 2: must be 0, 1 or a probability"),
        ({"prompt": "x", "a": -1}, "label 'a' is -1"),
        ({"prompt": "x", "a": "1"}, "label 'a' is '1'"),
    ],
)
def test_a_bad_row_is_refused_by_file_and_line(row, message, tmp_path):
    with pytest.raises(DataError, match=r"texts\.jsonl:2: .*" + re.escape(message)):
        labelled_task(tmp_path, {"prompt": "x", "a": 1, "b": 0}, row)


def test_a_row_without_any_of_the_labels_is_left_out_with_a_warning(tmp_path):
    rows = [{"prompt": "x", "a": 1, "b": 0}, {"prompt": "y", "c": 1}, {"prompt": "z", "a": 0}]

    with pytest.warns(RlcompWarning, match="left out: 1 of 3"):
        result = labelled_task(tmp_path, *rows)

    assert [result.example(n).prompt for n in range(len(result))] == ["x", "z"]


def test_a_label_that_no_row_knows_is_refused(tmp_path):
    with pytest.raises(DataError, match="no row has the label 'b'"):
        labelled_task(tmp_path, {"prompt": "x", "a": 1})


def test_a_batch_holds_texts_and_their_labels_each_once_an_epoch(tmp_path):
    rows = [{"prompt": "x" * n, "a": n % 2, "b": None if n == 3 else 1} for n in range(1, 7)]
    tokenizer = byte_tokenizer()
    sampler = LabelledTextsSampler(
        task=labelled_task(tmp_path, *rows, held_out=0.0),
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
            task=labelled_task(tmp_path, {"prompt": "x", "a": 1, "b": 0}, held_out=0.0),
            labels=["a"],
            tokenizer=byte_tokenizer(),
            batch_size=2,
            context_length=64,
        )
