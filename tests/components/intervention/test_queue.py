import threading
import time

import pytest
import torch

from components.intervention import QueueIntervention
from components.worlds.point_maze.reach import Reach
from rlcomp.errors import ConfigError
from rlcomp.testing import make_batch


class Device:
    """Puts what it is told, from a thread of its own."""

    def __init__(self):
        self.told = threading.Semaphore(0)
        self.done = threading.Semaphore(0)
        self.next = []
        self.calls = 0

    def __call__(self, commands):
        self.calls += 1
        while self.told.acquire():
            for command in self.next:
                commands.put(command)
            self.done.release()

    def put(self, *commands):
        self.next = commands
        self.told.release()
        assert self.done.acquire(timeout=5)


def steered(device, copy=0, lasts=1, seconds=0.0, copies=2):
    environment = Reach(num_envs=copies, max_steps=9, stride=0.1, radius=0.1)
    return QueueIntervention(
        environment=environment, device=device, copy=copy, lasts=lasts, seconds=seconds
    )


def step(part):
    batch = part(make_batch(observation=torch.zeros(2, 2), action=torch.zeros(2, 2)))
    return batch["action"].tolist(), batch["intervened"].flatten().tolist()


FREE = ([[0.0, 0.0], [0.0, 0.0]], [False, False])


def test_a_command_steers_one_copy_for_so_many_steps():
    device = Device()
    part = steered(device, copy=1, lasts=2)
    assert step(part) == FREE

    device.put([0.5, -7.0])

    over = ([[0.0, 0.0], [0.5, -1.0]], [False, True])
    assert [step(part) for _ in range(3)] == [over, over, FREE]
    assert device.calls == 1


def test_only_the_newest_command_counts():
    device = Device()
    part = steered(device)
    step(part)

    device.put([0.5, 0.5], [0.25, 0.25])

    assert [step(part)[1], step(part)[1]] == [[True, False], [False, False]]


def test_none_hands_back():
    device = Device()
    part = steered(device, lasts=9)
    step(part)

    device.put([0.5, 0.5])
    assert step(part) == ([[0.5, 0.5], [0.0, 0.0]], [True, False])
    device.put(None)

    assert step(part) == FREE


def test_what_is_no_action_is_told():
    device = Device()
    part = steered(device)
    step(part)
    device.put([0.5])

    with pytest.raises(ConfigError, match="an action of 2 finite numbers"):
        step(part)


def test_steps_take_their_time():
    part = steered(Device(), seconds=0.05)
    begin = time.monotonic()

    for _ in range(4):
        step(part)

    # The first is due at once.
    assert 0.15 <= time.monotonic() - begin < 20


def test_a_copy_that_is_not_there_is_refused():
    assert steered(Device(), copy=1).copy == 1
    with pytest.raises(ConfigError, match=r"copy is 2, .* has 2 copies: set copy to at most 1"):
        steered(Device(), copy=2)
