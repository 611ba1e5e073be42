"""Implicit process rewards by hand: a scorer whose log-probs are a table."""

import pytest
import torch
from tensordict import TensorDict

from components.shaping.process import ImplicitProcessReward
from rlcomp.metrics import recording

SCORED = torch.tensor([[0.0, -1.0, -2.0], [0.0, -3.0, 0.0], [0.0, -1.0, -1.0]])


class Table:
    """What the implicit model says of the tokens."""

    def log_probs(self, batch):
        return SCORED


def rows(**more):
    entries = {
        "tokens": torch.zeros(3, 3, dtype=torch.int64),
        "attention_mask": torch.ones(3, 3, dtype=torch.bool),
        "response_mask": torch.tensor(
            [[False, True, True], [False, True, False], [False, True, True]]
        ),
        "ref_log_probs": torch.tensor([[0.0, -2.0, -1.5], [0.0, -1.0, 9.0], [0.0, -1.0, -3.0]]),
        "reward_valid": torch.tensor([True, True, True]),
        **more,
    }
    return TensorDict(entries, [3])


def test_a_token_is_paid_its_log_ratio():
    found = ImplicitProcessReward(scorer=Table(), beta=0.5)(rows())["token_reward"]

    assert found.tolist() == [[0, 0.5, -0.25], [0, -1, 0], [0, 0, 1]]


def test_it_is_added_to_what_is_there():
    there = torch.full((3, 3), 2.0)

    found = ImplicitProcessReward(scorer=Table(), beta=0.5)(rows(token_reward=there))[
        "token_reward"
    ]

    assert found.tolist() == [[0, 2.5, 1.75], [0, 1, 0], [0, 2, 3]]


def test_how_well_it_tells_right_from_wrong_is_recorded():
    # Sums .25, -1 and 1: right are the first and the last of three valid rows.
    with recording() as ledger:
        ImplicitProcessReward(scorer=Table(), beta=0.5)(
            rows(correct=torch.tensor([True, False, False]))
        )

    # One right answer, which leads one of two wrong ones.
    assert ledger.means()["implicit_reward/auc"] == pytest.approx(0.5)
    assert ledger.means()["implicit_reward/token"] == pytest.approx((0.5 + 0.25 + 1 + 0 + 1) / 5)


def test_an_answer_that_was_not_judged_is_not_counted():
    found = {"correct": torch.tensor([True, False, False])}
    found["reward_valid"] = torch.tensor([True, True, False])

    with recording() as ledger:
        ImplicitProcessReward(scorer=Table(), beta=0.5)(rows(**found))

    assert ledger.means()["implicit_reward/auc"] == 1.0
    assert ledger.means()["implicit_reward/token"] == pytest.approx((0.5 + 0.25 + 1) / 3)
