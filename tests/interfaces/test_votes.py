import torch
from tensordict import TensorDict

from components.reward.function import Function
from rlcomp.batch import encode_texts
from rlcomp.interfaces.votes import class_sizes, same_answers, verdicts
from rlcomp.metrics import recording


def same_number(response, answer):
    return None if not response else float(int(response) == int(answer))


def rows(responses, answers):
    texts = {"prompt": [""] * len(answers), "response": responses, "answer": answers}
    return TensorDict(
        {key: encode_texts(column) for key, column in texts.items()}, batch_size=[len(answers)]
    )


def test_only_the_rows_that_are_asked_for_are_judged():
    asked = torch.tensor([True, True, True, False])

    with recording() as ledger:
        judge = Function(function=same_number)
        right, judged = verdicts(judge, rows(["1", "2", "", "4"], ["01", "1", "1", "4"]), asked)

    assert right.tolist() == [True, False, False, False]
    assert judged.tolist() == [True, True, False, False]
    assert ledger.means() == {}


def test_nobody_is_asked_about_no_rows():
    class Silent(Function):
        def forward(self, batch):
            raise AssertionError

    none = torch.zeros(1, dtype=torch.bool)
    right, judged = verdicts(Silent(function=same_number), rows(["1"], ["1"]), none)

    assert (right.tolist(), judged.tolist()) == ([False], [False])


def test_equal_texts_are_one_class_and_a_judge_may_join_more():
    votes = ["7", "8", "07", "7", "007", "08"]
    judge = Function(function=same_number)

    def equal(pairs):
        return same_answers(judge, rows(["x"], ["9"]), pairs)

    assert class_sizes(votes, None) == [2, 1, 1, 1, 1]
    assert class_sizes(votes, equal) == [4, 2]
    assert class_sizes([], equal) == []
    assert class_sizes(["7"], equal) == [1]
