import torch
from tensordict import TensorDict

from components.reward.function import FunctionReward
from rlcomp.batch import decode_texts, encode_texts
from rlcomp.interfaces.reward import TextReward
from rlcomp.interfaces.task import Example
from rlcomp.interfaces.verdicts import (
    AnswerVerifier,
    class_sizes,
    comparison_rows,
    first_votes,
    same_answers,
    verdicts,
)
from rlcomp.metrics import recording


def same_number(response, answer):
    return None if not response else float(int(response) == int(answer))


def rows(responses, answers):
    texts = {"prompt": [""] * len(answers), "response": responses, "answer": answers}
    return TensorDict(
        {key: encode_texts(column) for key, column in texts.items()}, batch_size=[len(answers)]
    )


def test_only_the_selected_rows_are_judged():
    asked = torch.tensor([True, True, True, False])

    with recording() as ledger:
        judge = FunctionReward(function=same_number)
        right, judged = verdicts(judge, rows(["1", "2", "", "4"], ["01", "1", "1", "4"]), asked)

    assert right.tolist() == [True, False, False, False]
    assert judged.tolist() == [True, True, False, False]
    assert ledger.means() == {}


def test_a_verifier_of_answers_takes_a_null_column_for_a_missing_one():
    class Within(TextReward):
        def score_row(self, row):
            return float(int(row["answer"]) - int(row["response"]) <= row.get("tolerance", 1))

    verifier = AnswerVerifier(Within(), "environment.verifier")

    for tolerance, right in ((None, True), (0, False)):
        example = Example("", "5", "5", columns={"tolerance": tolerance})
        assert verifier.is_right(example, "4") is right


def test_no_rows_need_no_judge():
    class Silent(FunctionReward):
        def forward(self, batch):
            raise AssertionError

    none = torch.zeros(1, dtype=torch.bool)
    right, judged = verdicts(Silent(function=same_number), rows(["1"], ["1"]), none)

    assert (right.tolist(), judged.tolist()) == ([False], [False])


def test_equal_texts_are_one_class_and_a_judge_may_join_more():
    groups = [["7", "8", "07", "7", "007", "08"], [], ["7"]]
    judge = FunctionReward(function=same_number)

    def equal(pairs):
        return same_answers(judge, rows(["x"] * 3, ["9"] * 3), pairs)

    assert class_sizes(groups, None) == [[2, 1, 1, 1, 1], [], [1]]
    assert class_sizes(groups, equal) == [[4, 2], [], [1]]
    assert class_sizes([], equal) == []


def test_votes_are_compared_with_the_first_of_each_class_alone():
    # 1 founds a class that 01 joins, 2 another that 02 joins, 3 the last: 4 questions, then 2.
    asked = []

    def equal(pairs):
        asked.append(pairs)
        return [int(first) == int(other) for _, first, other in pairs]

    found = first_votes([["1", "2", "01", "3", "02"], ["5", "5"]], equal)

    assert found == [{"1": "1", "01": "1", "2": "2", "02": "2", "3": "3"}, {"5": "5"}]
    assert asked == [[(0, "1", other) for other in ("2", "01", "3", "02")],
                     [(0, "2", other) for other in ("3", "02")]]  # fmt: skip


def test_a_vote_joins_the_first_class_whose_first_vote_it_equals():
    # Not transitive: 2 is near 1 and near 3, 3 is not near 1.
    def near(pairs):
        return [abs(int(first) - int(other)) <= 1 for _, first, other in pairs]

    assert class_sizes([["1", "2", "3"]], near) == [[2, 1]]
    assert class_sizes([["2", "1", "3"]], near) == [[3]]


def test_the_answer_of_a_question_ends_where_it_ends_and_not_where_the_old_one_did():
    batch = rows(["x", "y"], ["long", "9"])
    batch["answer_ends"] = torch.ones(2, 4, dtype=torch.bool)
    batch["tokens"] = torch.zeros(2, 3)

    asked = comparison_rows(batch, [(1, "4", "5"), (0, "67", "7"), (0, "", "7")])

    assert {*asked.keys()} == {"prompt", "response", "answer", "answer_ends"}
    assert decode_texts(asked["answer"]) == ["4", "67", ""]
    assert decode_texts(asked["response"]) == ["5", "7", "7"]
    assert asked["answer_ends"].nonzero().tolist() == [[0, 0], [1, 1]]
