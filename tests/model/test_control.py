import pytest
import torch
from torch import nn
from torchrl.objectives import ClipPPOLoss

from components.environment.control import gymnasium_environment
from rlcomp.errors import ConfigError
from rlcomp.model.control import actor, critic
from rlcomp.testing import make_batch


def environment(name="CartPole-v1"):
    return gymnasium_environment(name=name, num_envs=1)


def observed(rows=5):
    return make_batch(observation=torch.randn(rows, 4))


def test_all_actions_are_nearly_equally_likely_at_the_start():
    policy = actor(environment=environment(), num_cells=[16, 16])

    # The last layer is 0.01 times an orthogonal one and tanh stays below 1, so a logit is below
    # 0.01 * sqrt(16) = 0.04 and a probability within exp(0.08) of a half.
    log_prob = policy(observed(50))["action_log_prob"]
    torch.testing.assert_close(log_prob, torch.full((50,), 0.5).log(), atol=0.08, rtol=0)


def test_hidden_layers_are_orthogonal_without_bias():
    network = critic(environment=environment(), num_cells=[16, 16])

    square = [layer for layer in network.modules() if isinstance(layer, nn.Linear)][1]
    # Gain sqrt(2), so that W^T W is 2 I.
    torch.testing.assert_close(square.weight.T @ square.weight, 2 * torch.eye(16))
    assert square.bias.tolist() == [0.0] * 16


def test_the_critic_gives_one_value_a_row():
    assert critic(environment=environment(), num_cells=[8])(observed())["state_value"].shape == (
        5,
        1,
    )


def test_torchrls_loss_trains_the_very_networks_it_was_given():
    policy = actor(environment=environment(), num_cells=[8])
    value = critic(environment=environment(), num_cells=[8])
    loss = ClipPPOLoss(actor_network=policy, critic_network=value)
    batch = policy(observed()).detach()
    batch["advantage"], batch["value_target"] = torch.randn(5, 1), torch.randn(5, 1)

    terms = loss(batch)
    (terms["loss_objective"] + terms["loss_critic"]).backward()

    for network in (policy, value):
        assert all(bool(parameter.grad.abs().sum() > 0) for parameter in network.parameters())


def test_actions_that_are_not_numbered_are_refused():
    with pytest.raises(ConfigError, match="BoundedContinuous"):
        actor(environment=environment("Pendulum-v1"), num_cells=[8])


def test_what_is_no_vector_is_refused():
    # A Taxi sees the number of its state.
    with pytest.raises(ConfigError, match="not one vector 'observation'"):
        critic(environment=environment("Taxi-v4"), num_cells=[8])
