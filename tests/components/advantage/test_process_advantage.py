import torch
from tensordict import TensorDict

from components.advantage.process import ProcessSupervision
from rlcomp.metrics import recording
from rlcomp.testing import check_component, make_batch


def batch() -> TensorDict:
    """Steps 1 0 | 1 1 in two answers to a prompt; what stands beside the ends is no reward."""
    return make_batch(
        reward_valid=torch.ones(2, dtype=torch.bool),
        group_id=[4, 4],
        token_reward=[[9.0, 9, 1, 9, 0], [9, 1, 9, 1, 9]],
        step_end=torch.tensor([[1, 0, 1, 0, 1], [0, 1, 0, 1, 0]]).bool(),
        response_mask=torch.tensor([[0, 1, 1, 1, 1], [0, 1, 1, 1, 0]]).bool(),
    )


def test_it_keeps_the_contract():
    check_component(ProcessSupervision())


def test_steps_are_standardised_together_and_credited_to_the_tokens_before_their_end():
    # Mean 0.75, unbiased std 0.5: +0.5, -1.5 | +0.5, +0.5; the end in the prompt is none.
    advantage = ProcessSupervision(epsilon=1e-9)(batch())["advantage"]

    want = torch.tensor([[0, -1.0, -1.0, -1.5, -1.5], [0, 1.0, 0.5, 0.5, 0]])
    torch.testing.assert_close(advantage, want)


def test_the_size_of_the_signal_is_that_of_the_tokens():
    # (1 + 1 + 1.5 + 1.5 + 1 + 0.5 + 0.5) / 7.
    with recording() as ledger:
        ProcessSupervision(epsilon=1e-9)(batch())

    assert abs(ledger.means()["advantage/abs"] - 1.0) < 1e-6
    assert ledger.means()["advantage/zero_fraction"] == 0.0
