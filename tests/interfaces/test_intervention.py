import pytest
import torch
from torchrl.data import Bounded

from rlcomp.errors import ConfigError
from rlcomp.interfaces.intervention import Intervention


class Brake(Intervention):
    def decide(self, batch):
        return torch.zeros_like(batch["action"]), torch.ones(len(batch), dtype=torch.bool)


def test_an_intervention_needs_the_bounds_of_actions():
    with pytest.raises(ConfigError, match=r"Brake: actions is 3"):
        Brake(actions=3)

    assert Brake(actions=Bounded(-1, 2, shape=(2,))).high.tolist() == [2, 2]
