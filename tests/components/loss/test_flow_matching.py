import pytest
import torch

from components.loss.flow_matching import FlowMatchingLoss
from rlcomp.model.flow_policy import FlowPolicy, velocity_network
from rlcomp.testing import make_batch

DATA = torch.tensor([[1.0, -1.0], [0.5, 2.0], [0.0, 0.0]])


def made():
    torch.manual_seed(3)
    flow = FlowPolicy(
        velocity=velocity_network(size=2, num_cells=[4]), size=2, num_steps=4, noise_level=0.7
    )
    torch.manual_seed(9)
    return FlowMatchingLoss(policy=flow)


def test_it_is_the_squared_error_of_the_velocity_by_hand():
    loss = made()
    generator = torch.Generator().manual_seed(9)
    noise = torch.randn(3, 2, generator=generator)
    time = torch.rand(3, 1, generator=generator)

    value = loss(make_batch(sample=DATA))["loss_flow"]

    total = 0.0
    for x0, eps, t in zip(DATA, noise, time, strict=True):
        v = loss.policy.velocity_net(torch.cat([(1 - t) * x0 + t * eps, t]))
        total += float(((v - (eps - x0)) ** 2).sum().detach())
    assert float(value.detach()) == pytest.approx(total / 3, rel=1e-5)


def test_noise_and_time_are_drawn_anew():
    loss, batch = made(), make_batch(sample=DATA)

    one, other = (float(loss(batch)["loss_flow"].detach()) for _ in range(2))

    assert one != other


def test_its_gradient_is_on_every_weight_of_the_velocity():
    loss = made()

    loss(make_batch(sample=DATA))["loss_flow"].backward()

    assert all(bool(p.grad.abs().sum() > 0) for p in loss.policy.parameters())
