"""Batches of rated answers, from ratings, labels and files."""

import json

import pytest

from components.sampler.labels import RatedAnswers
from components.task.labels import PreferenceTask
from rlcomp.batch import decode_texts
from rlcomp.data.preference_rows import preference_examples
from rlcomp.data.records import Row
from rlcomp.errors import DataError
from rlcomp.interfaces.task import Example
from rlcomp.text.tokenizer import byte_tokenizer


class Listed:
    """A task of given examples."""

    held_out = 0.0

    def __init__(self, *examples):
        self.examples = examples

    def __len__(self):
        return len(self.examples)

    def example(self, index):
        return self.examples[index]


def rated(*columns):
    examples = [Example(f"{n}?", str(n), "yes", columns=held) for n, held in enumerate(columns)]
    task = Listed(*examples)
    return RatedAnswers(
        task=task, tokenizer=byte_tokenizer(), batch_size=len(columns), context_length=16
    )


def test_the_reward_is_the_rating_or_the_label():
    batch = rated({"rating": 4.5}, {"desirable": True}, {"desirable": False})(None)

    found = dict(zip(decode_texts(batch["prompt"]), batch["reward"].tolist(), strict=True))
    assert found == {"0?": 4.5, "1?": 1.0, "2?": 0.0}
    assert batch["reward_valid"].all()
    assert sorted(batch["group_id"].tolist()) == [0, 1, 2]


@pytest.mark.parametrize("held", [{}, {"rating": "good"}, {"rating": float("nan")}])
def test_an_answer_without_a_rating_is_refused(held):
    with pytest.raises(DataError, match="must be a finite number; a file has 'completion'"):
        rated(held)


def test_rows_of_a_file(tmp_path):
    rows = [
        {"prompt": "1?", "completion": "yes", "rating": 3},
        {"prompt": "2?", "responses": ["a", "b"], "ratings": [1, 2.5], "who": "me"},
    ]
    file = tmp_path / "rated.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))

    found = PreferenceTask(path=str(file), ratings="each")

    examples = [found.example(index) for index in range(len(found))]
    assert [(one.prompt, one.demonstration, one.columns) for one in examples] == [
        ("1?", "yes", {"rating": 3.0}),
        ("2?", "a", {"who": "me", "rating": 1.0}),
        ("2?", "b", {"who": "me", "rating": 2.5}),
    ]


@pytest.mark.parametrize(
    "row",
    [
        {"prompt": "1?", "completion": "yes", "rating": "good"},
        {"prompt": "1?", "responses": ["a", "b"], "ratings": [1]},
        {"prompt": "1?", "responses": ["a", "b"], "ratings": [1, float("inf")]},
    ],
)
def test_a_rating_that_is_none_is_refused_by_its_place(row):
    with pytest.raises(DataError, match="line 7"):
        preference_examples(Row("line 7", row), "prompt", "text", ratings="each")
