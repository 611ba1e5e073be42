import pytest
import torch
from torchrl.objectives import DQNLoss, HardUpdate, SoftUpdate

from components.environment.control import CartPole
from components.loss.transitions import TransitionLoss
from components.target import TargetUpdate
from rlcomp.model.control import action_values

# The updates are what is tested; torchrl looks at the targets before there is one.
pytestmark = pytest.mark.filterwarnings("ignore:No target network updater")


def loss():
    network = action_values(environment=CartPole(num_envs=1), num_cells=[4])
    made = TransitionLoss(
        objective=lambda **nets: DQNLoss(**nets, action_space="categorical"),
        networks={"value_network": network},
        gamma=0.9,
        period={},
    )
    return made


def updating(every, kind, **settings):
    """Trained weights of 1, targets of 0 (an updater begins with a copy)."""
    made = loss()
    update = TargetUpdate(loss=made, updater=lambda held: kind(held, **settings), every=every)
    for weight in made.objective.value_network_params.values(True, True):
        weight.data.fill_(1.0)
    for weight in made.objective.target_value_network_params.values(True, True):
        weight.data.fill_(0.0)
    return update, made


def target(made):
    weights = made.objective.target_value_network_params.values(True, True)
    return {round(float(value), 6) for weight in weights for value in weight.flatten()}


def test_a_soft_target_nears_constant_weights_geometrically():
    update, made = updating(1, SoftUpdate, tau=0.1)

    for _ in range(3):
        update()

    assert target(made) == {round(1 - 0.9**3, 6)}


def test_a_hard_target_is_a_copy_every_so_many_calls():
    update, made = updating(2, HardUpdate, value_network_update_interval=0)
    seen = []

    for _ in range(2):
        update()
        seen.append(target(made))

    assert seen == [{0.0}, {1.0}]


def test_the_count_of_calls_is_saved():
    update, _ = updating(2, SoftUpdate, tau=0.1)
    update()

    assert int(update.state_dict()["calls"]) == 1
    assert not [key for key in update.state_dict() if "network" in key]  # they are the loss's
    assert torch.is_tensor(update.calls)
