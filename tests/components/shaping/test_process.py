"""Implicit process rewards, step rewards and potential-based shaping, by hand."""

import pytest
import torch
from tensordict import TensorDict

from components.advantage.group import LeaveOneOut
from components.potential import StepScore
from components.shaping.process import (
    ImplicitProcessReward,
    PotentialShaping,
    StepRewards,
    TurnPotentialShaping,
    turn_bounds,
)
from rlcomp.component import Component
from rlcomp.metrics import recording
from rlcomp.testing import make_batch

SCORED = torch.tensor([[0.0, -1.0, -2.0], [0.0, -3.0, 0.0], [0.0, -1.0, -1.0]])


class Table:
    """Implicit model with log-probs from a table."""

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


def test_the_reward_of_a_token_is_its_log_ratio():
    result = ImplicitProcessReward(scorer=Table(), beta=0.5)(rows())["token_reward"]

    assert result.tolist() == [[0, 0.5, -0.25], [0, -1, 0], [0, 0, 1]]


def test_it_is_added_to_existing_token_rewards():
    there = torch.full((3, 3), 2.0)

    result = ImplicitProcessReward(scorer=Table(), beta=0.5)(rows(token_reward=there))[
        "token_reward"
    ]

    assert result.tolist() == [[0, 2.5, 1.75], [0, 1, 0], [0, 2, 3]]


def test_the_auc_is_recorded():
    # Sums .25, -1 and 1: right are the first and the last of three valid rows.
    with recording() as ledger:
        ImplicitProcessReward(scorer=Table(), beta=0.5)(
            rows(correct=torch.tensor([True, False, False]))
        )

    # One right answer, which leads one of two wrong ones.
    assert ledger.means()["implicit_reward/auc"] == pytest.approx(0.5)
    assert ledger.means()["implicit_reward/token"] == pytest.approx((0.5 + 0.25 + 1 + 0 + 1) / 5)


def test_an_answer_without_a_verdict_is_not_counted():
    result = {"correct": torch.tensor([True, False, False])}
    result["reward_valid"] = torch.tensor([True, True, False])

    with recording() as ledger:
        ImplicitProcessReward(scorer=Table(), beta=0.5)(rows(**result))

    assert ledger.means()["implicit_reward/auc"] == 1.0
    assert ledger.means()["implicit_reward/token"] == pytest.approx((0.5 + 0.25 + 1) / 3)


class Given(Component):
    """Potential from an entry of the batch."""

    keys = {"potential": ("B T", "float", "Phi of the state before the token, in reward units")}
    reads = ("value",)
    writes = ("potential",)

    def forward(self, batch):
        batch["potential"] = batch["value"]
        return batch


def steps(**more):
    # A prompt's token, a step of two tokens, a step of one, and a tail.
    return make_batch(
        response_mask=[[False, True, True, True, True]],
        step_end=[[False, False, True, True, False]],
        step_score=[[9.0, 9.0, 0.5, 0.75, 9.0]],
        **more,
    )


def test_each_step_has_its_score_at_its_end():
    with recording() as ledger:
        result = StepRewards(coef=2.0)(steps(token_reward=torch.full((1, 5), 1.0)))

    assert result["token_reward"].tolist() == [[0, 1, 2, 2.5, 1]]
    assert ledger.means() == {"reward/step": 1.25}


def test_the_potential_is_that_of_the_latest_complete_step():
    result = StepScore()(steps())["potential"]

    assert result.tolist() == [[0, 0, 0, 0.5, 0.75]]


def test_a_step_of_the_first_token_counts():
    rows = {
        "response_mask": torch.tensor([[True, True]]),
        "step_end": torch.tensor([[True, False]]),
        "step_score": torch.tensor([[0.25, 9.0]]),
    }

    assert StepScore()(TensorDict(rows, [1]))["potential"].tolist() == [[0, 0.25]]


def test_shaping_adds_the_differences_of_the_potential():
    with recording() as ledger:
        result = PotentialShaping(potential=StepScore(), coef=2.0)(steps())["token_reward"]

    # Phi 0, 0, 1/2, 3/4, and 0 after the last token.
    assert result.tolist() == [[0, 0, 1, 0.5, -1.5]]
    assert result.sum().item() == 0  # of a prompt without a potential
    assert ledger.means()["reward/potential_step"] == pytest.approx(3 / 4)


def test_it_is_added_to_existing_rewards_and_changes_nothing_else():
    batch = steps(token_reward=torch.ones(1, 5))

    result = PotentialShaping(potential=StepScore(), gamma=0.5)(batch)

    assert result["token_reward"].tolist() == [[0, 1, 1.25, 1 + 0.375 - 0.5, 1 - 0.75]]
    assert "potential" not in result.keys()


def test_all_first_tokens_of_a_group_keep_their_advantage_but_for_the_start_s_potential():
    # Four answers to a prompt whose potential is .3; beyond that the potential is any.
    value = torch.randn(4, 3, generator=torch.Generator().manual_seed(0))
    value[:, 0] = 0.3
    group = make_batch(
        response_mask=torch.ones(4, 3, dtype=torch.bool),
        value=value,
        reward=[1.0, 0.0, 0.0, 2.0],
        reward_valid=torch.ones(4, dtype=torch.bool),
        group_id=torch.zeros(4, dtype=torch.int64),
    )
    plain = LeaveOneOut()(group.copy())["advantage"]

    shaped = LeaveOneOut()(PotentialShaping(potential=Given())(group.copy()))["advantage"]

    torch.testing.assert_close(shaped, plain - value)


def test_turns_begin_and_end_at_sampled_tokens():
    # Turns 0, 1 and 3 with text of the environment in between; turn 0 has a hole.
    turn = torch.tensor([[-1, 0, 0, 0, -1, 1, -1, 3, 3]])
    mask = torch.tensor([[0, 1, 0, 1, 0, 1, 0, 1, 1]]).bool()

    first, last = turn_bounds(turn, mask)

    assert first.int().tolist() == [[0, 1, 0, 0, 0, 1, 0, 1, 0]]
    assert last.int().tolist() == [[0, 0, 0, 1, 0, 1, 0, 0, 1]]


@pytest.mark.parametrize(
    ("stage", "key"),
    [
        (TurnPotentialShaping(potential=Given()), "turn_reward"),
        (PotentialShaping(potential=Given()), "token_reward"),
        (StepRewards(), "token_reward"),
    ],
)
def test_no_gradient_goes_through_rewards_or_potentials(stage, key):
    batch = steps(
        turn_id=torch.tensor([[-1, 0, 0, 1, 1]]),
        value=torch.ones(1, 5, requires_grad=True),
        **{key: torch.ones(1, 5, requires_grad=True)},
    )

    assert not stage(batch)[key].requires_grad


def test_turns_are_shaped_by_their_first_states():
    rows = make_batch(
        response_mask=[[False, True, True, False, True], [True] * 5],
        turn_id=[[-1, 0, 0, -1, 1], [0, 1, 1, 1, 2]],
        value=[[9.0, 1.0, 9.0, 9.0, 4.0], [2.0, 3.0, 9.0, 9.0, 5.0]],
        turn_reward=[[0.0, 0, 10, 0, 20], [1.0, 0, 0, 0, 0]],
    )

    with recording() as ledger:
        result = TurnPotentialShaping(potential=Given(), gamma=0.5)(rows)["turn_reward"]

    # 4 / 2 - 1 and -4; 3 / 2 - 2, 5 / 2 - 3 and -5.
    assert result.tolist() == [[0, 0, 11, 0, 16], [0.5, 0, 0, -0.5, -5]]
    assert ledger.means()["reward/potential_turn"] == pytest.approx(11 / 5)
