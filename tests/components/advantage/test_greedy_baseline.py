import pytest
import torch
from tensordict import TensorDict

from components.advantage.monte_carlo import GreedyBaseline
from rlcomp.errors import ConfigError
from rlcomp.metrics import recording


def batch(**entries) -> TensorDict:
    """Two prompts; rows 0 and 2 are sampled, 1 and 3 greedy."""
    made = {
        "reward": torch.tensor([1.0, 0.25, 0.0, 0.5]),
        "reward_valid": torch.ones(4, dtype=torch.bool),
        "group_id": torch.tensor([6, 6, 2, 2]),
        "greedy": torch.tensor([False, True, False, True]),
        "response_mask": torch.tensor([[False, True, True]] * 4),
    }
    return TensorDict(made | entries, batch_size=[4])


def test_an_answer_counts_by_how_far_it_beats_the_greedy_one():
    # 1 - 0.25 and 0 - 0.5.
    advantage = GreedyBaseline()(batch())["advantage"]

    assert advantage.tolist() == [[0, 0.75, 0.75], [0, 0, 0], [0, -0.5, -0.5], [0, 0, 0]]


def test_greedy_answers_are_no_training_data_and_the_given_mask_stays_as_it_was():
    given = batch()
    mask = given["response_mask"]

    result = GreedyBaseline()(given)

    assert result["response_mask"].any(1).tolist() == [True, False, True, False]
    assert mask.any(1).all()


def test_a_greedy_answer_that_is_the_sampled_one_again_gives_exactly_0():
    advantage = GreedyBaseline()(batch(reward=torch.full((4,), 0.7)))["advantage"]

    assert not advantage.any()


@pytest.mark.parametrize("invalid", [0, 1])
def test_without_a_valid_reward_on_both_sides_there_is_no_advantage(invalid):
    valid = torch.arange(4) != invalid
    reward = torch.where(valid, batch()["reward"], float("nan"))
    dense = torch.ones(4, 3)

    result = GreedyBaseline()(batch(reward=reward, reward_valid=valid, token_reward=dense))

    assert not result["advantage"][0].any()
    assert result["advantage"][2].tolist() == [0.0, 1.5, 0.5]


def test_dense_rewards_are_credited_to_those_before_them_or_to_their_token():
    # R - b = 0.75; from the first token on 0.25 + 0.5 more, from the second 0.5.
    dense = torch.tensor([[9.0, 0.25, 0.5]] + [[0.0] * 3] * 3)

    to_go = GreedyBaseline()(batch(token_reward=dense))["advantage"]
    immediate = GreedyBaseline(kl_credit="immediate")(batch(token_reward=dense))["advantage"]

    assert to_go[0].tolist() == [0.0, 1.5, 1.25]
    assert immediate[0].tolist() == [0.0, 1.0, 1.25]


def test_a_group_without_a_greedy_answer_is_refused():
    with pytest.raises(ConfigError, match="collector@rollout=greedy_baseline"):
        GreedyBaseline()(batch(greedy=torch.tensor([False, True, False, False])))


def test_metrics_are_those_of_the_sampled_answers():
    # Baselines 0.25 and 0.5; sizes 0.75 and 0.5.
    with recording() as ledger:
        GreedyBaseline()(batch())

    assert ledger.means() == {
        "advantage/baseline": 0.375,
        "advantage/abs": 0.625,
        "advantage/zero_fraction": 0.0,
    }


def test_a_row_without_a_valid_reward_is_recorded_as_0():
    valid = torch.tensor([False, True, True, True])

    with recording() as ledger:
        GreedyBaseline()(batch(reward_valid=valid))

    # Row 0 has none; row 2 is 0 - 0.5. Baselines 0.25 and 0.5.
    means = ledger.means()
    assert means["advantage/abs"] == 0.25
    assert means["advantage/zero_fraction"] == 0.5
    assert means["advantage/baseline"] == 0.375
