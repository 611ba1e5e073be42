"""Pairs of a group: best and worst, ties, answers that were not judged."""

import pytest
import torch

from components.pairing import BestWorstPairs
from rlcomp.metrics import recording
from rlcomp.testing import check_component, make_batch


def batch(reward, group, valid=None):
    rows = len(reward)
    return make_batch(
        reward=reward,
        group_id=group,
        reward_valid=valid or [True] * rows,
        tokens=torch.arange(rows)[:, None],
    )


def paired(made, **settings):
    kept = BestWorstPairs(**settings)(made)
    rows = kept["tokens"].flatten().tolist()
    pairs = list(zip(rows[::2], rows[1::2], strict=True))
    assert kept["chosen"].tolist() == [True, False] * len(pairs)
    return pairs, kept["reward_valid"].tolist()[::2]


def test_the_best_answer_of_a_group_is_chosen_and_the_worst_rejected():
    rows = batch([0.0, 5.0, 2.0, 3.0, 1.0, 4.0], [9, 4, 9, 4, 9, 4])

    pairs, valid = paired(rows)

    assert sorted(pairs) == [(1, 3), (2, 0)]
    assert valid == [True, True]


def test_an_answer_that_was_not_judged_is_in_no_pair():
    rows = batch([9.0, 1.0, 2.0, -9.0], [0] * 4, [False, True, True, False])

    assert paired(rows) == ([(2, 1)], [True])


@pytest.mark.parametrize("valid", [[True, True], [True, False], [False, False]])
def test_a_group_in_which_nothing_differs_teaches_nothing(valid):
    _, learnt = paired(batch([1.0, 1.0], [0, 0], valid))

    assert learnt == [False]


def test_rewards_that_differ_by_rounding_are_no_pair():
    _, valid = paired(batch([120.00001, 120.0], [0, 0]))

    assert valid == [False]


def test_rewards_of_a_pair_differ_by_more_than_the_gap():
    rows = batch([1.0, 0.5], [0, 0])

    assert [paired(rows, gap=gap)[1] for gap in (0.4, 0.5)] == [[True], [False]]


def test_a_group_of_one_gives_no_row():
    assert paired(batch([1.0, 0.0, 7.0], [0, 0, 1]))[0] == [(0, 1)]


def test_one_of_equally_good_answers_is_drawn():
    stage = BestWorstPairs()
    rows = batch([1.0, 1.0, 0.0, 0.0], [0] * 4)

    drawn = {tuple(stage(rows)["tokens"].flatten().tolist()) for _ in range(60)}

    assert drawn == {(0, 2), (0, 3), (1, 2), (1, 3)}


def test_a_random_rejected_answer_is_any_that_is_worse():
    stage = BestWorstPairs(rejected="random")
    rows = batch([3.0, 2.0, 1.0, 3.0], [0] * 4)

    drawn = {int(stage(rows)["tokens"][1]) for _ in range(40)}

    assert drawn == {1, 2}


def test_how_many_groups_give_pairs_and_how_far_they_differ_is_recorded():
    rows = batch([1.0, 0.0, 5.0, 2.0, 3.0, 3.0, 0.0, 9.0], [0, 0, 1, 1, 2, 2, 3, 3])
    rows["reward_valid"][6:] = False

    with recording() as ledger:
        BestWorstPairs()(rows)

    # Gaps 1 and 3 of two of the four groups.
    assert ledger.means() == {"pairing/pairs": 0.5, "pairing/gap": 2.0}


def test_it_keeps_the_contract():
    check_component(BestWorstPairs())
