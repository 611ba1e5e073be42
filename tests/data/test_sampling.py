import inspect

import pytest

from components.worlds.addition.task import Addition
from rlcomp.batch import decode_texts
from rlcomp.data.sampling import TaskSampler
from rlcomp.testing import check_component
from rlcomp.text.tokenizer import character_tokenizer


class Backwards(TaskSampler):
    """The last examples, the last one first."""

    def start(self):
        self.left = len(self.task)

    def take(self, count):
        self.left -= count
        places = range(self.left + count - 1, self.left - 1, -1)
        return [(place, self.task.example(place)) for place in places]

    def run_state(self):
        return {"left": self.left}

    def load_run_state(self, state):
        self.left = state["left"]


class Numbered(Backwards):
    """The same, with their indices."""

    writes = ("prompt", "answer", "answer_ends", "example_id")


def sampler(kind):
    return kind(
        task=Addition(digits=1, held_out=0.0),
        tokenizer=character_tokenizer(characters="0123456789+="),
        batch_size=2,
        context_length=8,
        max_new_tokens=2,
    )


def test_a_sampler_only_chooses_examples():
    made = sampler(Backwards)

    assert decode_texts(made()["prompt"]) == ["9+9=", "9+8="]
    assert decode_texts(made()["prompt"]) == ["9+7=", "9+6="]


def test_indices_are_written_where_the_sampler_declares_them():
    assert "example_id" not in sampler(Backwards)().keys()
    assert sampler(Numbered)()["example_id"].tolist() == [99, 98]


def test_it_keeps_the_contract():
    check_component(sampler(Numbered))


@pytest.mark.parametrize(("part", "numbers"), [(TaskSampler, {"batch_size": 64})])
def test_numbers_that_nobody_gives(part, numbers):
    given = inspect.signature(part.__init__).parameters.values()

    assert {p.name: p.default for p in given if isinstance(p.default, (int, float))} == numbers
