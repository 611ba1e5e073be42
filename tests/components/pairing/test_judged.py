"""AI labels: both orders, soft labels, votes, pairs that no verdict decides."""

import pytest
import torch

from components.pairing import JudgedPairs
from rlcomp.batch import encode_texts
from rlcomp.interfaces.judge import AnswerPair
from rlcomp.metrics import recording
from rlcomp.testing import check_component, make_batch


class Told:
    """A judge that says what it was given for (first, second)."""

    def __init__(self, **verdicts):
        self.verdicts = verdicts
        self.asked = []

    def __call__(self, pairs):
        self.asked += pairs
        return [self.verdicts[f"{pair.first}{pair.second}"] for pair in pairs]


def batch(responses, group, **columns):
    rows = len(group)
    return make_batch(
        prompt=[f"p{each}" for each in group],
        response=list(responses),
        group_id=group,
        row=torch.arange(rows),
        **{key: torch.tensor(value) for key, value in columns.items()},
    )


# The probability of what is shown first: it leans to the first, and to a and c.
LEANING = {"ab": 0.9, "ba": 0.4, "cd": 0.8, "dc": 0.6}


def test_the_mean_of_both_orders_decides_and_is_the_soft_label():
    kept = JudgedPairs(judge=Told(**LEANING))(batch("abdc", [3, 3, 1, 1]))

    # p(a) = (.9 + .6) / 2 and p(c) = (.8 + .4) / 2; the groups come by their number.
    assert kept["row"].tolist() == [3, 2, 0, 1]
    assert kept["chosen"].tolist() == [True, False, True, False]
    assert kept["reward_valid"].tolist() == [True] * 4
    assert kept["label_noise"].tolist() == pytest.approx([0.4, 0.4, 0.25, 0.25])


def test_a_hard_label_has_no_noise():
    kept = JudgedPairs(judge=Told(**LEANING), soft=False)(batch("ab", [0, 0]))

    assert kept["label_noise"].tolist() == [0.0, 0.0]


def test_the_judge_sees_prompt_both_orders_and_what_is_right():
    judge = Told(**LEANING)
    rows = batch("ab", [7, 7])
    rows["answer"] = encode_texts(["x", "x"])

    JudgedPairs(judge=judge)(rows)

    assert judge.asked == [AnswerPair("p7", "a", "b", "x"), AnswerPair("p7", "b", "a", "x")]


@pytest.mark.parametrize("verdicts", [{"ab": None, "ba": 0.1}, {"ab": 0.9, "ba": None}])
def test_a_pair_that_one_order_did_not_judge_teaches_nothing(verdicts):
    kept = JudgedPairs(judge=Told(**verdicts))(batch("ab", [0, 0]))

    assert kept["reward_valid"].tolist() == [False, False]


def test_a_judge_that_only_sees_the_position_teaches_nothing():
    kept = JudgedPairs(judge=Told(ab=0.75, ba=0.75))(batch("ab", [0, 0]))

    assert kept["reward_valid"].tolist() == [False, False]


def test_equal_texts_are_not_asked_and_teach_nothing():
    judge = Told()

    assert JudgedPairs(judge=judge)(batch("aa", [0, 0]))["reward_valid"].tolist() == [False, False]
    assert judge.asked == []


def test_the_first_two_of_a_group_are_a_pair_and_one_alone_is_none():
    kept = JudgedPairs(judge=Told(**LEANING))(batch("aebcd", [0, 5, 0, 0, 0]))

    assert kept["row"].tolist() == [0, 2]


def test_votes_are_shares_of_drawn_verdicts():
    sure = JudgedPairs(judge=Told(ab=1.0, ba=0.0), votes=5)(batch("ab", [0, 0]))
    torch.manual_seed(0)
    drawn = JudgedPairs(judge=Told(ab=0.9, ba=0.3), votes=4)
    noise = {round(float(drawn(batch("ab", [0, 0]))["label_noise"][0]), 4) for _ in range(200)}

    assert sure["label_noise"].tolist() == [0.0, 0.0]
    assert noise == {k / 8 for k in range(5)}
    many = JudgedPairs(judge=Told(ab=0.9, ba=0.3), votes=20_000)(batch("ab", [0, 0]))
    assert many["label_noise"][0] == pytest.approx(0.2, abs=0.02)


def test_orders_and_agreement_are_recorded():
    # a over b in one order alone; c over d in both; e and f without a verdict; g and g not asked.
    judge = Told(ab=0.9, ba=0.7, cd=0.8, dc=0.4, ef=None, fe=0.5)
    rows = batch(
        "abcdefgg",
        [0, 0, 1, 1, 2, 2, 3, 3],
        reward=[0.0, 1.0, 1.0, 0.0, 1.0, 0.0, 1.0, 0.0],
        reward_valid=[True] * 8,
    )

    with recording() as ledger:
        JudgedPairs(judge=judge)(rows)

    assert ledger.means() == pytest.approx(
        {
            "pairing/pairs": 0.5,
            "pairing/order_flips": 0.5,
            "pairing/first_shown": (0.9 + 0.7 + 0.8 + 0.4) / 4,
            "pairing/unjudged": 1 / 3,
            "pairing/agreement": 0.5,
        }
    )


def test_it_keeps_the_contract():
    check_component(
        JudgedPairs(judge=lambda pairs: [0.7 if len(pair.first) else 0.2 for pair in pairs])
    )


def test_a_verdict_flips_where_the_first_shown_wins_or_loses_in_both_orders():
    # a wins both times; of c and d the first does, of e and f the second.
    judge = Told(ab=0.9, ba=0.2, cd=0.8, dc=0.6, ef=0.3, fe=0.4)

    with recording() as told:
        JudgedPairs(judge=judge)(batch("abcdef", [0, 0, 1, 1, 2, 2]))

    assert told.means()["pairing/order_flips"] == pytest.approx(2 / 3)


def test_votes_are_drawn_with_the_probability_of_the_first():
    kept = JudgedPairs(judge=Told(ab=0.9, ba=0.2), votes=400)(batch("ab", [0, 0]))

    # p(a) = (.9 + .8) / 2; the standard deviation of its estimate is .012.
    assert kept["row"].tolist() == [0, 1]
    assert kept["label_noise"][0].item() == pytest.approx(0.15, abs=0.06)
