"""Single answers, each desirable or not."""

import pytest

from components.sampler.labels import LabelledAnswers
from rlcomp.batch import decode_texts
from rlcomp.errors import DataError
from rlcomp.interfaces.task import Example
from rlcomp.text.tokenizer import byte_tokenizer


class Answers:
    """Four labelled answers, every second one bad."""

    held_out = 0.0

    def __init__(self, **columns):
        self.columns = columns

    def __len__(self):
        return 4

    def example(self, index):
        columns = {"desirable": index % 2 == 0, "annotator": "model", **self.columns}
        return Example(f"{index}?", "a", "a", columns=columns)


def sampler(task, **settings):
    given = {"batch_size": 4, "context_length": 8, **settings}
    return LabelledAnswers(task=task, tokenizer=byte_tokenizer(), **given)


def test_rows_are_answers_with_their_labels_and_groups_of_their_own():
    batch = sampler(Answers())()

    asked = decode_texts(batch["prompt"])
    assert batch["chosen"].tolist() == [int(text[0]) % 2 == 0 for text in asked]
    assert batch["group_id"].tolist() == [0, 1, 2, 3]
    assert batch["response_mask"].sum(1).tolist() == [2, 2, 2, 2]  # a and EOS
    assert "pair_weight" not in batch.keys()


def test_answers_count_by_their_annotators():
    batch = sampler(Answers(), annotator_weight={"model": 0.5})()

    assert batch["pair_weight"].tolist() == [0.5] * 4


def test_an_answer_without_a_label_is_refused_at_once():
    with pytest.raises(DataError, match=r"'0\?' has desirable None: must be true or false"):
        sampler(Answers(desirable=None))
