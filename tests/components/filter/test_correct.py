"""Rejection sampling."""

import pytest
import torch

from components.filter import CorrectFilter
from rlcomp.metrics import recording
from rlcomp.testing import check_component, make_batch


def batch():
    """Right, wrong, right but not judged, right."""
    return make_batch(
        correct=[True, False, True, True],
        reward_valid=[True, True, False, True],
        group_id=[0, 0, 1, 1],
    )


def test_it_keeps_the_contract():
    check_component(CorrectFilter())


def test_it_keeps_what_is_right_and_was_judged():
    with recording() as ledger:
        kept = CorrectFilter()(batch())

    assert kept["group_id"].tolist() == [0, 1]
    assert kept["correct"].tolist() == [True, True]
    assert ledger.means()["filter/rejected_fraction"] == pytest.approx(2 / 4)


def test_where_nothing_is_right_nothing_is_left():
    wrong = batch().set("correct", torch.zeros(4).bool())

    assert CorrectFilter()(wrong).shape == (0,)
