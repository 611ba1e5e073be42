import pytest
import torch
from tensordict import TensorDict

from rlcomp.errors import ConfigError
from rlcomp.pareto.objectives import as_multi_objective, observed, stacked


class Two:
    names = ("right", "short")

    def per_objective(self, batch):
        return batch


def test_a_stage_of_several_objectives_is_taken_as_it_is():
    stage = Two()

    assert as_multi_objective(stage, "choose advantage=group_mean") is stage


def test_a_stage_of_one_reward_is_refused_with_both_remedies():
    said = r"objectives is a Linear: .*\+objective=brevity, or choose advantage=group_mean"
    with pytest.raises(ConfigError, match=said):
        as_multi_objective(torch.nn.Linear(1, 1), "choose advantage=group_mean")


def test_rewards_are_stacked_as_data_even_if_they_have_a_graph():
    columns = {"right": torch.ones(2, requires_grad=True), "short": torch.tensor([3.0, torch.nan])}

    names, rewards = stacked(TensorDict(columns, batch_size=[2]))

    assert names == ("right", "short")
    assert rewards[0].tolist() == [1.0, 3.0]
    assert rewards.dtype == torch.float64
    assert not rewards.requires_grad


def test_statistics_are_data_even_if_their_sources_have_a_graph():
    rewards, vectors = torch.tensor([[1.0, 4.0], [2.0, torch.nan]]), torch.tensor([[2.0], [-3.0]])
    preference, units = torch.tensor([[0.25, 0.75]]), torch.tensor([2.0, 5.0])
    given = [each.requires_grad_() for each in (rewards, vectors, preference, units)]

    found = observed(["right", "short"], *given)

    assert found.returns.tolist() == [1.5, 4.0]
    assert (found.preference.tolist(), found.units.tolist()) == ([[0.25, 0.75]], [2.0, 5.0])
    shown = [found.returns, found.means, found.gram, found.preference, found.units]
    assert all(each.dtype == torch.float64 and not each.requires_grad for each in shown)
