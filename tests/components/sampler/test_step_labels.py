"""Answers whose steps have labels: from files to rows and held-out figures."""

import json

import pytest
import torch

from components.evaluator.reward_model import StepLabelAccuracy
from components.sampler.labels import StepLabels
from components.task.steps import StepLabelTask
from rlcomp.engine.decoding import Decoding
from rlcomp.errors import DataError
from rlcomp.interfaces.task import Example
from rlcomp.metrics import recording
from rlcomp.model.language_model import LanguageModel
from rlcomp.model.scorer import TokenScorer
from rlcomp.testing import tiny_model
from rlcomp.text.tokenizer import byte_tokenizer

ROW = {"prompt": "1?", "completions": ["ab", "c"], "labels": [True, False]}


@pytest.fixture
def task(tmp_path):
    """A task of given rows."""

    def made(*rows, **settings):
        file = tmp_path / "steps.jsonl"
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return StepLabelTask(path=str(file), **settings)

    return made


def test_a_row_of_a_file(task):
    example = task(ROW).example(0)

    assert (example.prompt, example.demonstration) == ("1?", "ab\nc")
    columns = {"steps": ["ab\n", "c"], "step_labels": [1.0, 0.0], "desirable": False}
    assert example.columns == columns


@pytest.mark.parametrize(
    ("settings", "labels", "found", "right"),
    [
        ({}, [0.75, None], [0.75, None], True),
        ({}, [0.75, 0.5], [0.75, 0.5], False),
        ({}, [1, 0], [1.0, 0.0], False),
        ({"scale": "signed"}, [1, -1], [1.0, 0.0], False),
        ({"scale": "signed"}, [1, 0], [1.0, 1.0], True),
        ({"scale": "signed", "neutral": "wrong"}, [1, 0], [1.0, 0.0], False),
        ({"scale": "signed", "neutral": "leave_out"}, [1, 0], [1.0, None], True),
    ],
)
def test_labels_are_probabilities_or_of_three_kinds(task, settings, labels, found, right):
    columns = task({**ROW, "labels": labels}, **settings).example(0).columns

    assert (columns["step_labels"], columns["desirable"]) == (found, right)


def test_a_known_outcome_goes_before_the_steps(task):
    assert task({**ROW, "correct": True}).example(0).columns["desirable"] is True


@pytest.mark.parametrize(
    "broken",
    [
        {"labels": [True]},
        {"labels": "yes"},
        {"labels": [True, 2]},
        {"labels": [True, "no"]},
        {"completions": ["a", ""]},
        {"prompt": None},
        {"correct": "yes"},
    ],
)
def test_a_bad_row_is_refused_by_its_line(task, broken):
    with pytest.raises(DataError, match=r"steps\.jsonl:1"):
        task({**ROW, **broken})


class Listed:
    """A task of given examples."""

    held_out = 0.0

    def __init__(self, *examples, held_out=0.0):
        self.examples = examples
        self.held_out = held_out

    def __len__(self):
        return len(self.examples)

    def example(self, index):
        return self.examples[index]


def answer(prompt, steps, labels, **columns):
    text = "".join(steps)
    return Example(prompt, text, text, columns={"steps": steps, "step_labels": labels, **columns})


def test_labels_stand_on_the_tokens_that_complete_the_steps():
    task = Listed(answer("1?", ["ab;", "c"], [True, 0.25]))

    batch = StepLabels(task=task, tokenizer=byte_tokenizer(), batch_size=1, context_length=16)(None)

    # Two bytes of the prompt, four of the answer, EOS.
    assert batch["step_end"].int().tolist() == [[0, 0, 0, 0, 1, 1, 0]]
    assert batch["step_label"].tolist() == [[0, 0, 0, 0, 1.0, 0.25, 0]]
    assert batch["reward"].tolist() == [0.0]


def test_a_step_without_a_label_is_none_and_the_outcome_may_be_told():
    task = Listed(answer("1?", ["a", "b"], [None, False], desirable=True))

    batch = StepLabels(task=task, tokenizer=byte_tokenizer(), batch_size=1, context_length=16)(None)

    assert batch["step_end"].int().tolist() == [[0, 0, 0, 1, 0]]
    assert batch["reward"].tolist() == [1.0]


@pytest.mark.parametrize(
    ("steps", "labels"), [(["a"], [True, True]), (["a"], [7]), ([], []), (["a"], ["yes"])]
)
def test_an_example_without_labelled_steps_is_refused(steps, labels):
    with pytest.raises(DataError, match="the example '1\\?' has"):
        StepLabels(
            task=Listed(answer("1?", steps, labels)),
            tokenizer=byte_tokenizer(),
            batch_size=1,
            context_length=16,
        )


def test_steps_that_are_not_the_answer_are_refused():
    torn = Example("1?", "ab", "ab", columns={"steps": ["a"], "step_labels": [True]})
    with pytest.raises(DataError, match="steps that are not its answer"):
        StepLabels(task=Listed(torn), tokenizer=byte_tokenizer(), batch_size=1, context_length=16)


class Vowels(TokenScorer):
    """Log-odds 2 of an ``a``, -1 of anything else."""

    def token_scores(self, batch):
        return torch.where(batch["tokens"] == byte_tokenizer().encode("a")[0], 2.0, -1.0)


def test_held_out_steps_by_hand():
    tokenizer = byte_tokenizer()
    policy = LanguageModel(model=tiny_model(tokenizer), tokenizer=tokenizer, decoding=Decoding())
    task = Listed(
        answer("1?", ["a", "b", "a"], [True, False, False]),
        answer("2?", ["b", "a"], [True, False]),
        answer("3?", ["a"], [True]),
        held_out=1.0,
    )

    with recording() as ledger:
        StepLabelAccuracy(scorer=Vowels(policy=policy), task=task, name="held", bins=1)(None)

    found = ledger.means()
    # Right: a, b of the first, a of the last; the first error is found in the first answer only.
    assert found["held/accuracy"] == pytest.approx(3 / 6)
    assert found["held/base"] == pytest.approx(3 / 6)
    assert found["held/first_error"] == pytest.approx(1 / 2)
    high, low = 1 / (1 + 2.718281828**-2), 1 / (1 + 2.718281828)
    assert found["held/ece"] == pytest.approx((4 * high + 2 * low) / 6 - 1 / 2)


class Even(TokenScorer):
    """Even odds of an ``a``, log-odds 3 of anything else."""

    def token_scores(self, batch):
        return torch.where(batch["tokens"] == byte_tokenizer().encode("a")[0], 0.0, 3.0)


def test_even_odds_call_a_step_wrong_and_a_label_of_one_half_says_so():
    tokenizer = byte_tokenizer()
    policy = LanguageModel(model=tiny_model(tokenizer), tokenizer=tokenizer, decoding=Decoding())
    task = Listed(
        answer("1?", ["a", "b"], [0.5, True]), answer("2?", ["b", "b"], [1, 0.75]), held_out=1.0
    )

    with recording() as ledger:
        StepLabelAccuracy(scorer=Even(policy=policy), task=task)(None)

    found = ledger.means()
    assert found["held_out/accuracy"] == 1
    assert found["held_out/base"] == pytest.approx(3 / 4)
    assert found["held_out/first_error"] == 1
