"""Stages for workers in processes, and an alarm for every test of them."""

import os
import signal
import time

import pytest
import torch
from tensordict import TensorDict

from components.collector.group import GroupCollector
from rlcomp.batch import decode_texts, encode_texts
from rlcomp.component import Component
from rlcomp.errors import ConfigError
from rlcomp.interfaces.cluster import PromptRange, RolloutRequest
from rlcomp.metrics import recording
from rlcomp.run.async_rollout import FreeStages
from rlcomp.testing import tiny_policy

ALARM = 300


@pytest.fixture(autouse=True)
def alarm():
    def ring(*_):
        raise TimeoutError(f"a test hung for {ALARM} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(ALARM)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


class Scaled(Component):
    """``x`` times a weight; ``x = 3`` raises, ``x = 4`` hangs."""

    fresh = True

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(1))
        self.generator = torch.Generator().manual_seed(1)

    def forward(self, batch):
        if (batch["x"] == 3).any():
            raise ConfigError("x is 3: set x=2")
        if (batch["x"] == 4).any():
            time.sleep(1000)
        process = torch.full_like(batch["x"], os.getpid())
        entries = {"y": batch["x"] * self.weight, "pid": process}
        return TensorDict(entries, batch_size=batch.batch_size)


def batch(*values):
    return TensorDict({"x": torch.tensor(values, dtype=torch.float64)}, batch_size=[len(values)])


def request(value):
    return RolloutRequest(99, None, 0.0, 0, (1,), PromptRange(0, 1, 1), batch(value))


def made_while_one_dies(cluster, kill):
    """Five steps under schedule ``free``, before the third of which ``kill(cluster)``.

    Returns:
        The prompts that were consumed, all prompts wherever they are, the newest version of a token
        in each step, and how often a worker was started again.
    """
    torch.manual_seed(1)
    policy = tiny_policy(scale=4.0)
    collector = GroupCollector(policy=policy, group_size=2, max_new_tokens=6)
    stage, found, versions, restarts = FreeStages(stages=[collector], cluster=cluster), [], [], 0
    for number in range(5):
        if number == 2:
            kill(cluster)
        texts = [f"{number}+{n}=" for n in range(3)]
        asked = TensorDict({"prompt": encode_texts(texts)}, batch_size=[3])
        with recording() as ledger, torch.no_grad():
            rows = stage(asked)
        found += decode_texts(rows["prompt"])[::2]
        versions.append(int(rows["policy_version"][rows["response_mask"]].max()))
        restarts += ledger.means()["cluster/restarts"]
        policy.updated()
    done = [decode_texts(made.rows["prompt"])[0] for made in stage.pool.done.values()]
    left = [decode_texts(each.batch["prompt"])[0] for _, each in stage.pool.unfinished()]
    return found, sorted(found + done + left), versions, restarts


def consumed_once(found, every, versions, restarts):
    """Of 6 requests (that of the first step twice) 5 are consumed, each prompt of them once."""
    assert every == sorted(f"{number}+{n}=" for number in (0, 0, 1, 2, 3, 4) for n in range(3))
    assert len(found) == 15
    assert restarts == 1
    assert versions[0] == 0
    assert all(version <= number for number, version in enumerate(versions))
