import warnings

import pytest

from rlcomp.config.compose import compose_config
from rlcomp.config.resolve import plan_of
from rlcomp.errors import CheckpointError, RlcompWarning
from rlcomp.interfaces.task import Example
from rlcomp.run.unreachable import warn_unreachable


class Task:
    def __init__(self, *answers):
        self.answers = answers

    def __len__(self):
        return len(self.answers)

    def example(self, index):
        return Example("1+1", self.answers[index], "2")


class Characters:
    def encode(self, text, add_special_tokens):
        assert not add_special_tokens
        return [*text]


def told(answers, *words):
    plan = plan_of(compose_config(["max_new_tokens=4", *words]))
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        warn_unreachable(plan, {"task": Task(*answers), "tokenizer": Characters()})
    assert all(one.category is RlcompWarning for one in seen)
    return [str(one.message) for one in seen]


def test_answers_that_no_response_can_be_are_told_once():
    (one,) = told(["so it is\n#### 72", "12345", "12"])

    assert one.startswith("task: 2 of its first 3 answers are longer than max_new_tokens=4, and re")
    assert one.endswith("): set reward=last_number, or max_new_tokens=17")
    (other,) = told(["so it is\n#### 72"])
    assert r'set "task.answer_pattern=' + r"'####\s*(.+?)\s*$'" + '" or reward=last_n' in other


@pytest.mark.parametrize(
    ("answers", "words"),
    [
        (["1234", "12"], []),
        (["12345", "1", "2"], []),
        (["12345"], ["reward=last_number"]),
        (["12345"], ["reward=boxed"]),
    ],
)
def test_nothing_is_told_where_most_can_be_right(answers, words):
    assert told(answers, *words) == []


def test_a_run_at_its_end_is_not_continued_elsewhere(play, tmp_path):
    play(tmp_path / "a")

    with pytest.raises(CheckpointError, match=r"at its end \(phases.rl.steps=3\).*steps=6 goes on"):
        play(tmp_path / "b", f"resume={tmp_path / 'a'}")
    play(tmp_path / "c", f"resume={tmp_path / 'a'}", "phases.rl.steps=4")
