import torch
from tensordict import TensorDict

from components.advantage.monte_carlo import OptimalTokenBaseline
from rlcomp.testing import check_component


def batch(**entries) -> TensorDict:
    """Two answers: a sure one of two tokens, an unsure one of one token."""
    made = {
        "reward": torch.tensor([1.0, 0.0]),
        "reward_valid": torch.ones(2, dtype=torch.bool),
        "group_id": torch.tensor([1, 1]),
        "old_log_probs": torch.tensor([[0.0, 0.75, 0.5], [0.0, 0.5, 1.0]]).log(),
        "squared_probs": torch.tensor([[0.0, 0.625, 0.5], [0.0, 0.5, 0.0]]),
        "response_mask": torch.tensor([[False, True, True], [False, True, False]]),
    }
    return TensorDict(made | entries, batch_size=[2])


def test_it_keeps_the_contract():
    check_component(OptimalTokenBaseline())


def test_an_answer_that_moves_the_weights_more_weighs_more():
    # Energies 1 - 1.5 + 0.625 = 0.125 and 1 - 1 + 0.5 = 0.5: baseline 0.125 / 0.625 = 0.2.
    # At the second token one answer is left.
    advantage = OptimalTokenBaseline()(batch())["advantage"]

    torch.testing.assert_close(advantage, torch.tensor([[0, 0.8, 0.0], [0, -0.2, 0.0]]))


def test_energies_add_up_along_the_answer():
    # At the second token 0.125 + 0.5 = 0.625 against 0.5 + 0.5 = 1: baseline 0.625 / 1.625.
    longer = batch()["response_mask"] | torch.tensor([[False] * 3, [False, False, True]])
    log_probs = torch.tensor([[0.0, 0.75, 0.5], [0.0, 0.5, 0.5]]).log()
    squares = torch.tensor([[0.0, 0.625, 0.5], [0.0, 0.5, 0.5]])

    result = OptimalTokenBaseline()(
        batch(response_mask=longer, old_log_probs=log_probs, squared_probs=squares)
    )

    baseline = 0.625 / 1.625
    torch.testing.assert_close(result["advantage"][:, 2], torch.tensor([1 - baseline, -baseline]))


def test_dense_rewards_are_part_of_the_return():
    # Returns at the first token 1 + 0.5 and 0 + 0.25: baseline (0.125 x 1.5 + 0.5 x 0.25) / 0.625.
    dense = torch.tensor([[7.0, 0.25, 0.25], [7.0, 0.25, 7.0]])

    advantage = OptimalTokenBaseline()(batch(token_reward=dense))["advantage"]

    torch.testing.assert_close(advantage[:, 1], torch.tensor([1.0, -0.25]))


def test_an_invalid_answer_weighs_nothing():
    advantage = OptimalTokenBaseline()(batch(reward_valid=torch.tensor([True, False])))["advantage"]

    assert not advantage.any()
