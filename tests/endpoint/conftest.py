"""A tiny policy behind an endpoint."""

import pytest
from tensordict import TensorDict

from rlcomp.batch import encode_columns, encode_texts
from rlcomp.endpoint.player import TracePlayer
from rlcomp.testing import tiny_policy


@pytest.fixture(scope="session")
def policy():
    return tiny_policy("abcd<>|=", context_length=64)


@pytest.fixture
def play(policy):
    """A function that runs an agent on prompts and returns the rows."""

    def played(agent, *, prompts=("a=",), group_size=1, seed=3, columns=None, **settings):
        settings = {"policy": policy, "max_new_tokens": 6, **settings}
        player = TracePlayer(agent=agent, **settings)
        batch = TensorDict({"prompt": encode_texts(prompts)}, batch_size=[len(prompts)])
        if columns is not None:
            batch["columns"] = encode_columns(columns)
        return player.play(batch, group_size=group_size, decoding=None, generator=None, seed=seed)

    return played
