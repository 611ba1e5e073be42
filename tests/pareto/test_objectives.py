import pytest
import torch
from tensordict import TensorDict

from rlcomp.errors import ConfigError
from rlcomp.pareto.objectives import as_multi_objective, objective_statistics, stack_rewards


class Two:
    names = ("right", "short")

    def per_objective(self, batch):
        return batch


def test_a_stage_with_several_objectives_is_returned():
    stage = Two()

    assert as_multi_objective(stage, "choose advantage=group_mean") is stage


def test_a_stage_with_one_reward_raises_with_both_remedies():
    message = r"objectives is a Linear: .*\+objective=brevity, or choose advantage=group_mean"
    with pytest.raises(ConfigError, match=message):
        as_multi_objective(torch.nn.Linear(1, 1), "choose advantage=group_mean")


def test_rewards_with_a_graph_are_stacked_without_it():
    columns = {"right": torch.ones(2, requires_grad=True), "short": torch.tensor([3.0, torch.nan])}

    names, rewards = stack_rewards(TensorDict(columns, batch_size=[2]))

    assert names == ("right", "short")
    assert rewards[0].tolist() == [1.0, 3.0]
    assert rewards.dtype == torch.float64
    assert not rewards.requires_grad


def test_statistics_of_tensors_with_a_graph_are_without_it():
    rewards, vectors = torch.tensor([[1.0, 4.0], [2.0, torch.nan]]), torch.tensor([[2.0], [-3.0]])
    preference, units = torch.tensor([[0.25, 0.75]]), torch.tensor([2.0, 5.0])
    tensors = [each.requires_grad_() for each in (rewards, vectors, preference, units)]

    statistics = objective_statistics(["right", "short"], *tensors)

    assert statistics.returns.tolist() == [1.5, 4.0]
    assert (statistics.preference.tolist(), statistics.units.tolist()) == (
        [[0.25, 0.75]],
        [2.0, 5.0],
    )
    values = [
        statistics.returns,
        statistics.means,
        statistics.gram,
        statistics.preference,
        statistics.units,
    ]
    assert all(each.dtype == torch.float64 and not each.requires_grad for each in values)
