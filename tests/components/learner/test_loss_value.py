import pytest
import torch
from tensordict import TensorDict
from tensordict.nn import TensorDictModule

from components.learner.loss_value import loss_value
from rlcomp.errors import ConfigError
from rlcomp.metrics import recording
from rlcomp.testing import make_batch

VIEW = make_batch(reward=[1.0, 3.0])


class Theirs(torch.nn.Module):
    """Hands on what it read, as foreign modules do, beside what it says that it writes."""

    in_keys = ("reward",)

    def __init__(self, **entries):
        super().__init__()
        self.entries = {key: torch.tensor(value) for key, value in entries.items()}
        self.out_keys = [*self.entries]

    def forward(self, rows):
        read = {"loss_read": rows["reward"][0]}
        return TensorDict({**read, **self.entries}, batch_size=[])


def test_entries_that_begin_with_loss_are_summed_and_other_scalars_recorded():
    loss = Theirs(loss_actor=2.0, loss_critic=[0.5], entropy=1.25, many=[1.0, 2.0])

    with recording() as ledger:
        value = loss_value("ppo", loss, VIEW)

    assert (value.item(), value.shape) == (2.5, ())  # without what it has read, a 1
    assert ledger.means() == {"ppo/entropy": 1.25}


def test_a_loss_has_an_entry_that_begins_with_loss():
    told = r"learner.losses.ppo returned \['actor'\]: a loss writes at least one scalar"

    with pytest.raises(ConfigError, match=told):
        loss_value("ppo", Theirs(actor=2.0), VIEW)


def test_a_loss_is_one_number():
    of_rows = TensorDictModule(torch.neg, in_keys=["reward"], out_keys=["loss"])

    with pytest.raises(ConfigError, match=r"returned 'loss' of shape \[2\]: must be a scalar"):
        loss_value("ppo", of_rows, VIEW)
