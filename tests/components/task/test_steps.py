"""Step pairs: the first differing step, after the shared ones."""

import pytest

from components.task.steps import StepPairs
from components.worlds.sorting.labels import SortingPairs
from rlcomp.data.pairs import pair_rows
from rlcomp.errors import DataError
from rlcomp.interfaces.task import Example
from rlcomp.text.prompt import TextPrompt
from rlcomp.text.tokenizer import byte_tokenizer


class One:
    """A task of one pair."""

    held_out = 0.5

    def __init__(self, chosen, **columns):
        self.pair = Example("q\n", "4", chosen, columns=columns)

    def __len__(self):
        return 1

    def example(self, index):
        return self.pair


def test_the_prompt_includes_the_shared_steps_and_a_step_has_no_eos():
    example = StepPairs(task=One("a\nb\nc", rejected="a\nx\nc", level=2)).example(0)

    tokenizer = byte_tokenizer()
    rows = pair_rows(tokenizer, TextPrompt(tokenizer=tokenizer), [example])
    texts = [tokenizer.decode(row["tokens"][row["response_mask"]]) for row in rows]
    assert (example.prompt, example.answer, texts) == ("q\na\n", "4", ["b\n", "x\n"])
    assert example.columns == {"rejected": "x\n", "step": True, "level": 2}


def test_without_a_separator_every_character_is_a_step():
    whole = SortingPairs(length=6, position=5)

    example = StepPairs(task=whole, separator="").example(529417)

    right, wrong = whole.example(529417).demonstration, whole.example(529417).columns["rejected"]
    assert example.prompt == "529417>1245"
    assert (example.demonstration, example.columns["rejected"]) == (right[4], wrong[4])


def test_a_step_pair_is_held_out_as_its_solutions_are():
    whole = SortingPairs(length=4, position=3, held_out=0.5)
    steps = StepPairs(task=whole, separator="")

    split = [steps.example(n).is_held_out(steps.held_out) for n in range(50)]

    assert split == [whole.example(n).is_held_out(0.5) for n in range(50)]
    assert 0 < sum(split) < 50


@pytest.mark.parametrize(
    ("task", "words"),
    [
        (One("a\nb", rejected="a\n"), "one the beginning of the other"),
        (One("a\nb"), "is no pair of texts"),
        (One("a", rejected="b", conversation={"messages": []}), "is no pair of texts"),
    ],
)
def test_pairs_without_a_differing_step_are_refused(task, words):
    with pytest.raises(DataError, match=words):
        StepPairs(task=task).example(0)
