from functools import partial

import pytest
import torch

from components.reward.answer import ExactMatch, Numeric
from components.reward.function import FunctionReward
from components.reward.majority_vote import MajorityVote, last_match
from rlcomp.batch import encode_texts
from rlcomp.errors import ConfigError, RlcompWarning
from rlcomp.metrics import recording
from rlcomp.testing import make_batch
from rlcomp.verify import pattern

NUMBERS = partial(last_match, pattern=r"\A[0-9.]+\Z")


def batch(*rows):
    """(group, response, gold answer) a row."""
    groups, responses, answers = zip(*rows, strict=True)
    return make_batch(
        prompt=["?"] * len(rows),
        response=encode_texts(responses),
        answer=encode_texts(answers),
        group_id=groups,
    )


def voted(verifier, *rows):
    with recording() as ledger:
        result = MajorityVote(reward=verifier, vote=NUMBERS)(batch(*rows))
    return result, ledger.means()


def test_the_last_match_votes_and_its_group_if_it_has_one():
    assert last_match("a1 b2", pattern="[a-z]([0-9])") == "2"
    assert last_match("a1 b2", pattern="[0-9]") == "2"
    assert last_match("a1 b2", pattern="([a-z])([0-9])") == "b"
    assert last_match("", pattern="x") is None


def test_an_empty_match_is_no_vote():
    assert last_match("none", pattern=r"[0-9]*\Z") is None
    assert last_match("none", pattern="=?([0-9]*)") is None


def test_a_pattern_that_backtracks_ends_with_its_name(monkeypatch):
    monkeypatch.setattr(pattern, "_SECONDS", 0.05)

    with pytest.raises(ConfigError, match=r"the pattern '\(a\+\)\+b' takes more than 0.05 s in a"):
        last_match("a" * 40, pattern="(a+)+b")


# Group 7: 4, 4, 5 and an answer that is none, gold 5. Group 3: 6 and 6, gold 6.
ROWS = [(7, "4", "5"), (3, "6", "6"), (7, "5", "5"), (7, "4", "5"), (3, "6", "6"), (7, "4x", "5")]


def test_the_majority_of_each_group_is_rewarded():
    result, told = voted(ExactMatch(), *ROWS)

    assert result["reward"].tolist() == [1, 1, 0, 1, 1, 0]
    assert result["rewards", "majority_vote"].tolist() == result["reward"].tolist()
    assert result["correct"].tolist() == [True, True, False, True, True, False]
    assert result["reward_valid"].all()
    assert told == pytest.approx(
        {
            "reward/majority_ratio": (2 / 4 + 2 / 2) / 2,
            "reward/label_correct": 1 / 2,  # 6 is right, 4 is not
            "reward/agreement": 3 / 6,  # both of group 3, and the answer that is none
            "reward/unread": 1 / 6,
            "reward/mean": 4 / 6,
            "reward/correct": 4 / 6,
            "reward/invalid_fraction": 0,
        }
    )


def test_answers_that_mean_the_same_vote_together():
    rows = [(0, "7", "7"), (0, "5", "7"), (0, "7.0", "7"), (0, "5", "7"), (0, "7.00", "7")]

    by_text, of_text = voted(ExactMatch(), *rows)
    by_value, of_value = voted(Numeric(where="last"), *rows)

    assert by_text["reward"].tolist() == [0, 1, 0, 1, 0]
    assert by_value["reward"].tolist() == [1, 0, 1, 0, 1]
    assert of_text["reward/majority_ratio"] == pytest.approx(0.4)
    assert of_value["reward/majority_ratio"] == pytest.approx(0.6)
    assert (of_text["reward/label_correct"], of_value["reward/label_correct"]) == (0, 1)


def test_the_first_of_two_majorities_counts():
    result, _ = voted(ExactMatch(), (0, "2", "1"), (0, "1", "1"), (0, "1", "1"), (0, "2", "1"))

    assert result["reward"].tolist() == [1, 0, 0, 1]


def test_one_that_is_left_of_its_group_is_the_majority():
    result, told = voted(ExactMatch(), (0, "4", "5"), (1, "x", "5"))

    assert result["reward"].tolist() == [1.0, 0.0]
    assert told["reward/majority_ratio"] == 0.5
    assert told["reward/agreement"] == 0.5  # both are wrong by the gold answer


def test_without_an_answer_there_is_nothing_to_learn():
    rows = [(0, "x", "1"), (0, "", "1"), (1, "x", "x"), (1, "3", "x")]

    result, told = voted(ExactMatch(), *rows)

    assert result["reward"].tolist() == [0, 0, 0, 1]
    assert told["reward/majority_ratio"] == 0.25
    assert told["reward/label_correct"] == 0.0


def broken(response: str) -> float:
    raise ValueError(response)


def test_calls_of_the_verifier_that_fail_are_counted():
    with pytest.warns(RlcompWarning, match="2 of 2 calls failed"):
        _, told = voted(FunctionReward(function=f"{__name__}.broken"), (0, "4", "5"), (0, "4", "5"))

    # Both responses against gold, then the vote of the majority; equal texts need no verdict.
    assert told["reward/failed/error"] == 2 + 1


def test_gold_answers_change_no_reward():
    one, _ = voted(ExactMatch(), *ROWS)
    other, _ = voted(ExactMatch(), *[(group, text, "9") for group, text, _ in ROWS])

    assert torch.equal(one["reward"], other["reward"])


def test_columns_reach_the_verifier():
    rows = batch(*ROWS)
    rows["columns"] = make_batch(unit=['"m"'] * len(ROWS))
    seen = []

    class Noting(ExactMatch):
        def score_row(self, row):
            seen.append(row["unit"])
            return super().score_row(row)

    MajorityVote(reward=Noting(), vote=NUMBERS)(rows)

    assert set(seen) == {"m"}


def test_a_vote_replaces_the_whole_gold_answer():
    class WholeAnswer(ExactMatch):
        """Looks where the answer ends, as rewards of texts that go on do."""

        reads = (*ExactMatch.reads, "answer_ends")

        def forward(self, rows):
            assert rows["answer_ends"].shape == rows["answer"].shape
            return super().forward(rows)

    rows = batch((0, "12", "123456"), (0, "3", "123456"), (0, "3", "123456"))
    rows["answer_ends"] = torch.zeros_like(rows["answer"], dtype=torch.bool)

    assert MajorityVote(reward=WholeAnswer(), vote=NUMBERS)(rows)["reward"].tolist() == [0, 1, 1]


def test_a_verifier_of_tokens_cannot_compare_votes():
    class OfTokens(ExactMatch):
        reads = (*ExactMatch.reads, "tokens")

    with pytest.raises(ConfigError, match=r"reward is a OfTokens, which reads tokens: a vote is a"):
        MajorityVote(reward=OfTokens(), vote=NUMBERS)


def test_few_classes_need_few_comparisons():
    judged = []

    class Counting(ExactMatch):
        def score_rows(self, rows, numbers):
            judged.append(len(rows))
            return super().score_rows(rows, numbers)

    # 8 votes, 7 of them different: 6 questions of the first, 5 of the second, ... 21 in 6 rounds.
    rows = [(0, vote, "1") for vote in "12345677"]
    MajorityVote(reward=Counting(), vote=NUMBERS)(batch(*rows))

    assert judged[:-2] == [6, 5, 4, 3, 2, 1]
    judged.clear()
    alike = [(group, vote, "1") for group in (0, 1) for vote in ("1", "2", "2", "1")]
    MajorityVote(reward=Counting(), vote=NUMBERS)(batch(*alike))
    assert judged[:-2] == [2]  # one in each group, in one call
