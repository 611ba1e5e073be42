"""Reports on judges whose biases are planted: exact where the judge tells probabilities."""

import json
import math

import pytest

from rlcomp.errors import DataError
from rlcomp.interfaces.judge import AnswerPair
from rlcomp.interfaces.task import Example
from rlcomp.report.judge import (
    LabelledPair,
    drift,
    judge_as_json,
    judge_report,
    judge_tables,
    labelled_pair,
)

# Lengths differ by 2, -2, 4, -4, ...: the mean square is (4 + 4 + 16 + 16) / 4 = 10.
PAIRS = [
    LabelledPair(AnswerPair(f"{number}", "a" * first, "b" * second), gap, own)
    for number, (first, second, gap, own) in enumerate(
        [(5, 3, 1.0, 0), (3, 5, 0.5, 1), (6, 2, -0.5, -1), (2, 6, 0.25, 0)]
    )
]
# Neither is better.
TIE = LabelledPair(AnswerPair("3", "aa", "bbbbbb"), 0.0)
KNOWN = {pair.pair.prompt: pair for pair in PAIRS}


def judge(quality=1.0, position=0.0, length=0.0, own=0.0, silent=()):
    """A judge with planted log-odds; length by character."""

    def told(pairs):
        found = []
        for pair in pairs:
            known = KNOWN[pair.prompt]
            sign = 1 if pair.first == known.pair.first else -1
            odds = position + sign * (quality * known.gap + own * known.own)
            odds += length * (len(pair.first) - len(pair.second))
            found.append(None if pair.prompt in silent else 1 / (1 + math.exp(-odds)))
        return found

    return told


def test_planted_biases_are_separated():
    report = judge_report(judge(quality=2.0, position=0.4, length=0.1, own=-0.3), PAIRS)

    found = {name: interval.value for name, interval in report.biases.items()}
    expected = {"position": 0.4, "length": 0.1 * math.sqrt(10), "self_preference": -0.3}
    assert found == pytest.approx(expected)
    assert report.pairs == 4
    assert report.invalid == 0


def test_a_judge_of_quality_alone_has_no_bias_though_better_answers_are_longer():
    report = judge_report(judge(), PAIRS)

    assert [i.value for i in report.biases.values()] == pytest.approx([0, 0, 0], abs=1e-9)
    assert report.order_flips == 0
    assert report.agreement.value == 1.0


def test_a_judge_of_the_place_is_half_right_but_by_the_mean_of_both_orders():
    report = judge_report(judge(quality=0.1, position=3.0), PAIRS)

    assert report.order_flips == 1.0
    assert report.agreement.value == 0.5
    assert report.label_agreement.value == 1.0
    assert report.biases["position"].value == pytest.approx(3.0)


def test_agreement_counts_the_better_answer():
    report = judge_report(judge(quality=0.0, own=1.0), PAIRS)

    # Both own answers are the better ones; of the other two pairs p is 1/2, which is half right.
    assert report.agreement.value == report.label_agreement.value == (1 + 1 + 0.5 + 0.5) / 4
    assert 0 < report.agreement.low < 0.75 < report.agreement.high < 1


@pytest.mark.parametrize(
    ("verdicts", "agreement", "labels", "flips"),
    [
        # For the first shown answer, in both orders; the first of the pair is better in 0, 1 and 3.
        ([(1, 0), (0, 1), (1, 1), (0, 0)], (1 + 0 + 0.5 + 0.5) / 4, (1 + 0 + 0.5 + 0.5) / 4, 0.5),
        ([(1, 1), (1, 1), (1, 1), (1, 1)], 0.5, 0.5, 1.0),
        ([(1, 0), (1, 0), (0, 1), (1, 0)], 1.0, 1.0, 0.0),
        # .5 + .1, .6 - .4, ... of one pair: one order right, the mean of both wrong.
        (
            [(0.9, 0.95), (1, 0), (0, 1), (0.5, 0)],
            (0.5 + 1 + 1 + 0.75) / 4,
            (0 + 1 + 1 + 1) / 4,
            0.5,
        ),
    ],
)
def test_a_pair_whose_orders_disagree_is_half_right(verdicts, agreement, labels, flips):
    told = iter([there for there, _ in verdicts] + [back for _, back in verdicts])

    report = judge_report(lambda pairs: [float(next(told)) for _ in pairs], PAIRS)

    assert report.agreement.value == agreement
    assert report.label_agreement.value == labels
    assert report.order_flips == flips


def test_verdicts_decided_by_quality_have_no_finite_bias():
    def certain(pairs):
        gaps = [(KNOWN[pair.prompt], pair) for pair in pairs]
        return [float((one.gap > 0) == (one.pair.first == pair.first)) for one, pair in gaps]

    report = judge_report(certain, PAIRS)

    assert report.agreement.value == 1.0
    assert report.biases == {}
    assert "the outcome with certainty" in report.unseen[0]


@pytest.mark.parametrize(
    ("columns", "gap", "own"),
    [
        ({}, 1.0, 0),
        ({"margin": 0.25, "own": "chosen"}, 0.25, 1),
        ({"tie": True, "label_noise": 0.5}, 0.0, 0),
        ({"own": "rejected"}, 1.0, -1),
    ],
)
def test_an_example_is_a_pair_whose_demonstration_is_better(columns, gap, own):
    found = labelled_pair(Example("p", "right", "a", columns={"rejected": "b", **columns}))

    assert found == (AnswerPair("p", "a", "b", "right"), gap, own)


@pytest.mark.parametrize(
    ("columns", "why"),
    [
        ({}, "has no column 'rejected'"),
        ({"rejected": "b", "own": "first"}, "has 'own' 'first'"),
        ({"rejected": "b", "margin": -1}, "margin -1"),
    ],
)
def test_an_example_that_is_no_pair_is_refused(columns, why):
    with pytest.raises(DataError, match=why):
        labelled_pair(Example("p", "a", "a", columns=columns))


def test_messages_are_their_texts():
    said = [{"role": "assistant", "content": "b"}]

    assert labelled_pair(Example("p", "a", "a", columns={"rejected": said})).pair.second == "b"


def test_the_report_is_json():
    found = judge_as_json(judge_report(judge(silent=("0", "1", "2")), [*PAIRS[:3], TIE]))

    assert found["agreement"] == {"value": None, "low": None, "high": None}
    assert json.loads(json.dumps(found, allow_nan=False))["invalid"] == 0.75


def test_pairs_without_a_verdict_are_invalid_and_left_out():
    many = [*PAIRS, LabelledPair(AnswerPair("9", "aaa", "b"), 1.0, 0)]
    KNOWN["9"] = many[-1]

    report = judge_report(judge(length=0.1, silent=("9",)), many)

    assert (report.pairs, report.invalid) == (4, pytest.approx(0.2))
    with pytest.raises(DataError, match="none of 1 pairs got a verdict in both orders"):
        judge_report(judge(silent=("9",)), many[-1:])


def test_a_column_that_is_nowhere_is_left_out():
    pairs = [LabelledPair(pair.pair, pair.gap) for pair in PAIRS]

    assert list(judge_report(judge(), pairs).biases) == ["position", "length"]


def test_few_pairs_could_not_have_shown_everything():
    report = judge_report(judge(), PAIRS * 50)

    assert report.pairs == 200
    assert "a bias of self_preference that adds 0.10 at a tie (needs 400 pairs)" in report.unseen
    assert not any("adds 0.10" in told and "length" in told for told in report.unseen)
    assert sum("adds 0.05" in told for told in report.unseen) == 3
    assert judge_report(judge(), PAIRS * 400).unseen == ()


def test_drift_is_paired():
    found = drift([True, True, True, False], [True, False, False, False])

    # Changes 0, -1, -1, 0: mean -1/2, standard deviation 1/sqrt(3), over 2.
    half = 1.96 / math.sqrt(3) / 2
    assert found == pytest.approx((-0.5, -0.5 - half, -0.5 + half))
    with pytest.raises(DataError, match="4 pairs and 3: must be the same pairs"):
        drift([True] * 4, [True] * 3)
    with pytest.raises(DataError, match="at least two"):
        drift([True], [True])


@pytest.mark.parametrize(("position", "is_told"), [(9.0, True), (0.0, False)])
def test_a_judge_near_chance_is_reported(position, is_told):
    many = PAIRS * 4  # at the place alone, half of the verdicts are right

    lines = judge_tables(judge_report(judge(position=position), many))[1:]

    assert any("coin" in line for line in lines) is is_told
