"""PRIME's advantage by hand, and what its two terms are alone."""

import pytest
import torch
from tensordict import TensorDict

from components.advantage.group import LeaveOneOut
from components.advantage.process import PRIME
from rlcomp.metrics import recording
from rlcomp.testing import check_component


def rows(**more):
    # Means of a token: 1, 2, 6 of the judged answers (two tokens, one, two).
    entries = {
        "token_reward": torch.tensor(
            [[0.0, 2.0, 7.0], [2.0, 7.0, 7.0], [4.0, 7.0, 8.0], [9.0] * 3]
        ),
        "response_mask": torch.tensor(
            [[True, True, False], [True, False, False], [True, False, True], [True] * 3]
        ),
        "reward": torch.tensor([1.0, 0.0, 0.0, 1.0]),
        "reward_valid": torch.tensor([True, True, True, False]),
        "group_id": torch.zeros(4, dtype=torch.int64),
        **more,
    }
    return TensorDict(entries, [4])


def test_the_worked_example():
    found = PRIME()(rows())["advantage"]

    # Baselines (2 + 6) / 2, (1 + 6) / 2 and (1 + 2) / 2; outcomes 1, -1/2, -1/2.
    expected = [
        [(0 - 4) + (2 - 4) + 1, (2 - 4) + 1, 0],
        [(2 - 3.5) - 0.5, 0, 0],
        [(4 - 1.5) + (8 - 1.5) - 0.5, 0, (8 - 1.5) - 0.5],
        [0, 0, 0],
    ]
    assert found.tolist() == expected


def test_weight_and_discount():
    found = PRIME(process_coef=0.5, gamma=0.5)(rows())["advantage"]

    assert found[2].tolist() == [0.5 * (2.5 + 0.5 * 6.5) - 0.5, 0, 0.5 * 6.5 - 0.5]


def test_without_token_rewards_it_is_rloo():
    batch = rows(token_reward=torch.zeros(4, 3))

    expected = LeaveOneOut()(batch.exclude("token_reward"))["advantage"]
    torch.testing.assert_close(PRIME()(batch.copy())["advantage"], expected)
    torch.testing.assert_close(PRIME(process_coef=0.0)(rows())["advantage"], expected)


def test_both_terms_are_recorded():
    with recording() as ledger:
        PRIME()(rows())

    found = ledger.means()
    # |-6|, |-2|, |-1.5|, |9|, |6.5| and |1|, |1|, |1/2| three times.
    assert found["advantage/process"] == pytest.approx(25 / 5)
    assert found["advantage/outcome"] == pytest.approx(3.5 / 5)


def test_it_keeps_the_contract():
    check_component(PRIME())
