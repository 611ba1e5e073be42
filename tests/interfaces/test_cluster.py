import pickle
import warnings

import pytest
import torch

from components.cluster.local import LocalCluster
from rlcomp.errors import ConfigError
from rlcomp.interfaces.cluster import AsyncSettings, PromptRange, RolloutReply
from rlcomp.metrics import Ledger
from rlcomp.testing import make_batch


def test_a_reply_is_read_back_as_it_was():
    rows = make_batch(
        tokens=[[1, 2], [3, 4]],
        half=torch.tensor([1.5, 2.5], dtype=torch.bfloat16),
        wide=torch.tensor([[1.0], [2.0]]).expand(2, 3),
        facts={"a": [True, False]},
    )
    reply = RolloutReply(3, 7, rows, Ledger(), 0.5, PromptRange(1, 1, 4))

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = pickle.loads(pickle.dumps(reply, protocol=5))

    assert (found.number, found.version, found.seconds) == (3, 7, 0.5)
    assert found.part == PromptRange(1, 1, 4)
    assert found.rows.batch_size == rows.batch_size
    assert found.rows["facts"].batch_size == rows.batch_size
    flat = rows.flatten_keys(".")
    assert set(found.rows.flatten_keys(".").keys()) == set(flat.keys())
    for key, value in found.rows.flatten_keys(".").items():
        assert value.dtype == flat[key].dtype
        assert torch.equal(value, flat[key])
    found.rows["tokens"][0, 0] = 9  # later stages may write
    assert reply.rows is rows


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"seats": 0}, "seats is 0"),
        ({"max_age": -1}, "max_age is -1"),
        ({"patience": 0.0}, "patience is 0.0"),
        ({"look_every": 0}, "look_every is 0"),
    ],
)
def test_settings_that_cannot_be_are_refused(settings, told):
    with pytest.raises(ConfigError, match=told):
        AsyncSettings(**settings)


def test_defaults_are_those_of_the_yaml():
    found = LocalCluster().free

    assert (found.seats, found.max_age, found.patience) == (None, None, None)
    assert (found.look_every, found.recompute_cache) == (16, False)
    assert AsyncSettings(max_age=0, look_every=1, seats=1).max_age == 0
    assert LocalCluster(free=AsyncSettings(seats=3)).free.seats == 3
