from functools import partial

import pytest
import torch

from rlcomp.errors import ConfigError
from rlcomp.model.optimizer import optimizer_groups

ADAM = partial(torch.optim.Adam, betas=(0.9, 0.999))


def named():
    return [
        ("losses.control.objective.actor_network_params.weight", torch.nn.Parameter(torch.ones(2))),
        (
            "losses.control.objective.qvalue_network_params.weight",
            torch.nn.Parameter(torch.ones(3)),
        ),
        ("losses.control.objective.log_alpha", torch.nn.Parameter(torch.zeros(()))),
    ]


def test_each_network_has_its_learning_rate():
    lr = {"qvalue_network": 0.1, "actor_network": 0.2, "log_alpha": 0.3}

    made = optimizer_groups(named(), optimizer=ADAM, lr=lr)

    found = [(group["lr"], group["params"][0].numel()) for group in made.param_groups]
    assert found == [(0.1, 3), (0.2, 2), (0.3, 1)]


def test_it_steps_as_one_optimizer_for_each_network():
    one, other = named(), named()
    lr = {"actor_network": 0.1, "qvalue_network": 0.2, "log_alpha": 0.3}
    together = optimizer_groups(one, optimizer=ADAM, lr=lr)
    apart = [ADAM([other[place][1]], lr=rate) for place, rate in enumerate(lr.values())]

    for step in range(3):
        for parameters in (one, other):
            for place, (_, parameter) in enumerate(parameters):
                # The actor has no gradient in the second step: Adam leaves it, and its count.
                alone = place == 0 and step == 1
                parameter.grad = None if alone else torch.full_like(parameter, place + step + 1.0)
        together.step()
        for optimizer in apart:
            optimizer.step()

    for (_, parameter), (_, expected) in zip(one, other, strict=True):
        assert torch.equal(parameter, expected)


def test_a_parameter_without_a_group_is_named():
    with pytest.raises(ConfigError, match=r"log_alpha' belongs to none of the groups"):
        optimizer_groups(named(), optimizer=ADAM, lr={"actor_network": 1.0, "qvalue_network": 1.0})


def test_a_parameter_with_two_groups_is_named():
    lr = {"actor": 1.0, "actor_network": 1.0, "qvalue_network": 1.0, "log_alpha": 1.0}

    with pytest.raises(ConfigError, match=r"'actor' and 'actor_network'"):
        optimizer_groups(named(), optimizer=ADAM, lr=lr)


def test_a_group_without_a_parameter_is_named():
    lr = {"actor_network": 1.0, "qvalue_network": 1.0, "log_alpha": 1.0, "value_network": 1.0}

    with pytest.raises(ConfigError, match=r"optimizer\.lr\.value_network: no trained parameter"):
        optimizer_groups(named(), optimizer=ADAM, lr=lr)
