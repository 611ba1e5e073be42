import torch
from tensordict.nn import TensorDictModule

from components.loss.value import StateValueLoss
from rlcomp.testing import make_batch


def test_squared_error_and_gradient_by_hand():
    # V = 2 s: (2 - 1)^2 and (4 - 1)^2, mean 5; dL/dw = mean of 2 s (V - G) = (2 + 12) / 2.
    layer = torch.nn.Linear(1, 1, bias=False)
    layer.weight.data.fill_(2.0)
    critic = TensorDictModule(layer, in_keys=["observation"], out_keys=["state_value"])
    batch = make_batch(observation=[[1.0], [2.0]], value_target=torch.ones(2, 1))

    loss = StateValueLoss(critic=critic)(batch)["loss_value"]
    loss.backward()

    assert float(loss.detach()) == 5.0
    assert layer.weight.grad.item() == 7.0
