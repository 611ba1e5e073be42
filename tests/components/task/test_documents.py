"""Documents: the whole text is to be foretold, and the split is that of the task."""

import pytest

from components.task.text import DocumentTask
from components.worlds.addition.task import Addition
from components.worlds.sorting.task import Sorting
from rlcomp.errors import DataError
from rlcomp.interfaces.task import Example


class Given:
    held_out = 0.25

    def __init__(self, example):
        self.given = example

    def __len__(self):
        return 3

    def example(self, index):
        return self.given


def test_prompt_and_demonstration_are_one_text():
    example = DocumentTask(task=Sorting(length=4, shuffled=1.0)).example(1234)

    assert (example.prompt, example.demonstration) == ("1", "234>1432")
    assert example.answer == "1234>1432"
    assert example.held_out_by == "1234>"


def test_without_a_demonstration_it_is_the_answer():
    example = DocumentTask(task=Given(Example("ab", "cd", None))).example(0)

    assert (example.prompt, example.demonstration) == ("a", "bcd")


def test_the_split_is_by_the_source_where_there_is_one():
    task = DocumentTask(task=Given(Example("ab", "cd", "e", source="book 7")))

    assert task.example(1).held_out_by == "book 7"
    assert (len(task), task.held_out) == (3, 0.25)


def test_a_text_of_one_character_has_nothing_to_predict():
    with pytest.raises(DataError, match="example 2 has the text 'a': nothing to predict"):
        DocumentTask(task=Given(Example("a", "", ""))).example(2)
    assert DocumentTask(task=Addition(digits=1)).example(34).answer == "3+4=7"
