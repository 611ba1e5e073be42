"""Reports on judges whose biases are planted: exact where the judge tells probabilities."""

import math

import pytest

from rlcomp.errors import DataError
from rlcomp.interfaces.pairwise_judge import Shown
from rlcomp.report.judge import Labelled, drift, judge_report

# Lengths differ by 2, -2, 4, -4, ...: the mean square is (4 + 4 + 16 + 16) / 4 = 10.
PAIRS = [
    Labelled(Shown(f"{number}", "a" * first, "b" * second), gap, own)
    for number, (first, second, gap, own) in enumerate(
        [(5, 3, 1.0, 0), (3, 5, 0.5, 1), (6, 2, -0.5, -1), (2, 6, 0.25, 0)]
    )
]
KNOWN = {pair.shown.prompt: pair for pair in PAIRS}


def judge(quality=1.0, position=0.0, length=0.0, own=0.0, silent=()):
    """A judge with planted log-odds; length by character."""

    def told(pairs):
        found = []
        for pair in pairs:
            known = KNOWN[pair.prompt]
            sign = 1 if pair.first == known.shown.first else -1
            odds = position + sign * (quality * known.gap + own * known.own)
            odds += length * (len(pair.first) - len(pair.second))
            found.append(None if pair.prompt in silent else 1 / (1 + math.exp(-odds)))
        return found

    return told


def test_planted_biases_are_told_apart():
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


def test_a_judge_of_the_place_flips_and_agrees_with_nothing_but_by_the_mean_of_both_orders():
    report = judge_report(judge(quality=0.1, position=3.0), PAIRS)

    assert report.order_flips == 1.0
    assert report.agreement.value == 1.0
    assert report.biases["position"].value == pytest.approx(3.0)


def test_agreement_counts_the_better_answer():
    report = judge_report(judge(quality=0.0, own=1.0), PAIRS)

    # Of the two pairs without an own answer p is 1/2, which agrees with neither.
    assert report.agreement.value == 0.5
    assert 0 < report.agreement.low < 0.5 < report.agreement.high < 1


def test_pairs_without_a_verdict_are_invalid_and_left_out():
    many = [*PAIRS, Labelled(Shown("9", "aaa", "b"), 1.0, 0)]
    KNOWN["9"] = many[-1]

    report = judge_report(judge(length=0.1, silent=("9",)), many)

    assert (report.pairs, report.invalid) == (4, pytest.approx(0.2))
    with pytest.raises(DataError, match="of 1 pairs none got a verdict in both orders"):
        judge_report(judge(silent=("9",)), many[-1:])


def test_a_column_that_is_nowhere_is_left_out():
    pairs = [Labelled(pair.shown, pair.gap) for pair in PAIRS]

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
