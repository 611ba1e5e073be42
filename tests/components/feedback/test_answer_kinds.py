import pytest
import torch
from tensordict import TensorDict

from components.feedback import AnswerKinds
from rlcomp.batch import encode_texts
from rlcomp.errors import ConfigError
from rlcomp.metrics import recording

KINDS = {"one": "[A-Z]", "two": "[A-Z]{2}", "capital": "[A-Z].*"}


def recorded(answers, correct, valid=None, proposers=None):
    entries = {
        "answer": encode_texts(answers),
        "correct": torch.tensor(correct),
        "reward_valid": torch.tensor(valid or [True] * len(answers)),
    }
    if proposers is not None:
        entries["is_proposer"] = torch.tensor(proposers)
    batch = TensorDict(entries, batch_size=[len(answers)])
    with recording() as ledger:
        assert AnswerKinds(kinds=KINDS)(batch) is batch
    return ledger.means()


def test_an_answer_is_of_the_first_kind_that_matches_all_of_it():
    found = recorded(["A", "AB", "ABC", "aB", "Z"], [True, False, True, True, False])

    assert found == {
        "answer_kinds/one": pytest.approx(0.4),
        "answer_kinds/one_correct": 0.5,
        "answer_kinds/two": pytest.approx(0.2),
        "answer_kinds/two_correct": 0.0,
        "answer_kinds/capital": pytest.approx(0.2),
        "answer_kinds/capital_correct": 1.0,
        "answer_kinds/other": pytest.approx(0.2),
        "answer_kinds/other_correct": 1.0,
    }


def test_rows_that_ask_are_left_out_and_answers_that_cannot_be_judged_are_neither_right_nor_wrong():
    found = recorded(
        ["A", "A", "A", "b"],
        [True, True, False, False],
        valid=[True, True, False, True],
        proposers=[True, False, False, False],
    )

    # Three answers: "A" twice, of which one is judged; no judged row is of kind two.
    assert found["answer_kinds/one"] == pytest.approx(2 / 3)
    assert found["answer_kinds/one_correct"] == 1.0
    assert found["answer_kinds/other"] == pytest.approx(1 / 3)
    assert found["answer_kinds/two"] == 0.0
    assert "answer_kinds/two_correct" not in found


def test_a_batch_without_answers_records_nothing():
    assert recorded(["A"], [False], proposers=[True]) == {}


@pytest.mark.parametrize(
    ("kinds", "words"),
    [
        ({}, "name one or more"),
        ({"other": "a"}, "none 'other'"),
        ({"broken": "["}, "kinds.broken '\\[' is no regular expression"),
    ],
)
def test_kinds_that_cannot_be_told_apart_are_refused(kinds, words):
    with pytest.raises(ConfigError, match=words):
        AnswerKinds(kinds=kinds)
