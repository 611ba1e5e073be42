import dataclasses

import pytest

from components.evaluator.accuracy import Accuracy
from rlcomp.interfaces.protocols import Suite
from rlcomp.interfaces.reward import TextReward
from rlcomp.interfaces.task import Example
from rlcomp.run import evaluate
from rlcomp.testing.tiny import tiny_policy


class Numbers:
    held_out = 0.99

    def __len__(self):
        return 9

    def example(self, index):
        return Example(f"{index}+", str(index), "", columns={"even": index % 2 == 0})


class Even(TextReward):
    """A reward of the column: it cannot judge problem 4."""

    name = "even"

    def score_row(self, row):
        return None if row["answer"] == "4" else float(row["even"])


def suite(samples=2, max_new_tokens=3, by=None):
    return Accuracy(
        policy=tiny_policy(),
        task=Numbers(),
        reward=Even(),
        num_prompts=9,
        samples_per_prompt=samples,
        max_new_tokens=max_new_tokens,
        by=by,
    )


def test_a_verdict_names_the_level_of_its_problem(monkeypatch):
    monkeypatch.setattr(evaluate, "_ROWS", 4)
    found = [*evaluate.evaluate_suite(suite(by="even"), sampled=False)]

    assert {each["level"] for each in found} == {"True", "False"}
    for each in found:
        assert each["level"] == str(int(each["answer"]) % 2 == 0)
    assert {each["level"] for each in evaluate.evaluate_suite(suite(), sampled=False)} == {""}


def test_an_evaluator_of_answers_is_a_suite():
    assert isinstance(suite(), Suite)
    assert not isinstance(Even(), Suite)


def test_every_problem_is_answered_greedily_and_then_sampled():
    asked = suite()
    found = [*evaluate.evaluate_suite(asked, sampled=True)]

    problems = [*range(len(asked.examples))]
    assert [each["problem"] for each in found] == problems * 2
    assert [each["decoding"] for each in found] == ["greedy"] * 9 + ["sampled"] * 9
    assert [len(each["responses"]) for each in found] == [1] * 9 + [2] * 9
    assert [each["prompt"] for each in found[:9]] == asked.policy_prompts
    for each in found:
        judged = None if each["answer"] == "4" else int(each["answer"]) % 2 == 0
        reward = None if judged is None else float(judged)
        for response in each["responses"]:
            assert (response["correct"], response["reward"]) == (judged, reward)
            assert 1 <= response["tokens"] <= 3
            # Without EOS all three tokens are text.
            assert len(response["text"]) == response["tokens"] - (not response["truncated"])
    assert [*evaluate.evaluate_suite(asked, sampled=False)] == found[:9]


def test_pieces_do_not_change_the_greedy_answers(monkeypatch):
    whole = [*evaluate.evaluate_suite(suite(), sampled=False)]
    monkeypatch.setattr(evaluate, "_ROWS", 2)

    assert [*evaluate.evaluate_suite(suite(), sampled=False)] == whole


def test_samples_differ_between_pieces_and_not_between_calls(monkeypatch):
    class Same(Numbers):
        def example(self, index):
            return Example("1+", str(index), "", columns={"even": True})

    asked = suite(samples=4)
    asked.examples = [Same().example(n) for n in range(4)]
    monkeypatch.setattr(evaluate, "_ROWS", 4)  # one problem at a time

    once, again = ([*evaluate.evaluate_suite(asked, sampled=True)][4:] for _ in range(2))

    texts = [[response["text"] for response in each["responses"]] for each in once]
    assert once == again
    assert texts[0] != texts[1]


def test_problems_are_told_apart_by_their_texts_and_columns():
    asked, other = suite(), suite()
    assert evaluate.hash_problems(asked) == evaluate.hash_problems(other)

    other.examples = [*other.examples[:-1], dataclasses.replace(other.examples[-1], answer="?")]
    assert evaluate.hash_problems(asked) != evaluate.hash_problems(other)
    last = dataclasses.replace(asked.examples[-1], columns={"tests": ["f(1) == 2"]})
    other.examples = [*asked.examples[:-1], last]
    assert evaluate.hash_problems(asked) != evaluate.hash_problems(other)


def test_so_many_rows_are_written_at_a_time(monkeypatch):
    judged = []

    class Counting(Even):
        def score_rows(self, rows, numbers):
            judged.append(len(rows))
            return super().score_rows(rows, numbers)

    monkeypatch.setattr(evaluate, "_ROWS", 4)
    asked = suite()
    asked.reward = Counting()

    assert len([*evaluate.evaluate_suite(asked, sampled=True)]) == 18
    # Nine problems with one answer, four at a time; with two answers each, two at a time.
    assert judged == [4, 4, 1, 4, 4, 4, 4, 2]


def test_more_samples_than_rows_at_a_time_still_answer(monkeypatch):
    monkeypatch.setattr(evaluate, "_ROWS", 1)

    assert len([*evaluate.evaluate_suite(suite(), sampled=True)]) == 18
    with pytest.raises(StopIteration):
        next(iter(evaluate.evaluate_suite(_empty(), sampled=False)))


def _empty():
    asked = suite()
    asked.examples = []
    return asked
