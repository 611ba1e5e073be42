"""What the pool's tests call, by dotted path: good functions and every kind of mistake."""

import asyncio
import contextlib
import ctypes
import os
import re
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from rlcomp.errors import Temporary


def triple(number):
    return 3 * number


def loop(**_):
    while True:
        pass


def fork_bomb(**_):
    # Bounded, so that a broken pool does not take the machine with it: 64 copies that never end.
    for _ in range(6):
        os.fork()
    while True:
        time.sleep(0.1)


def write_everywhere(text):
    # What a library does that takes a number for a descriptor of its own.
    for descriptor in range(3, 512):
        with contextlib.suppress(OSError):
            os.write(descriptor, text.encode())
    return 1.0


def segfault():
    ctypes.string_at(0)


def kill_self(number):
    os.kill(os.getpid(), number)


def bad_regex():
    re.match(r"(a+)+$", "a" * 40 + "b")


MISTAKES = {
    "loop": loop,
    "fork bomb": fork_bomb,
    "power": lambda: str(10**10**8),
    "regex": bad_regex,
    "segfault": segfault,
    "exit": lambda: sys.exit(0),
    "_exit": lambda: os._exit(0),
    "print": lambda: [print("x" * 10_000) for _ in range(100_000)],
    "caught": lambda: _catch_all(),
    "memory": lambda: bytearray(2**40),
    "raise": lambda: {}["no\nsuch"],
    "long": lambda: "x" * 2_000_000,
    "object": lambda: {1, 2},
    "digits": lambda: 7**20_000,
}


def _catch_all():
    while True:
        with contextlib.suppress(Exception):
            print("x" * 10_000)


def mistake(what):
    """1.0, or the mistake of that name."""
    return MISTAKES[what]() if what in MISTAKES else 1.0


def numbers():
    return {"array": np.ones(2), "scalar": np.float32(0.5), "none": None}


def surroundings():
    return {
        "torch": "torch" in sys.modules,
        "memory": resource.getrlimit(resource.RLIMIT_AS)[0],
        "core": resource.getrlimit(resource.RLIMIT_CORE)[0],
        "cpu": resource.getrlimit(resource.RLIMIT_CPU)[0] - time.process_time(),
        "files": [os.readlink(f"/proc/self/fd/{number}") for number in range(3)],
        "session": os.getsid(0) == os.getpid(),
        "hash": hash("a text"),
        "process": os.getpid(),
    }


def meet(folder, name):
    """Returns once "b" was called too: two calls must run at the same time."""
    (Path(folder) / name).touch()
    while name == "a" and not (Path(folder) / "b").exists():
        time.sleep(0.01)
    return os.getpid()


async def meet_all(folder, number, count):
    (Path(folder) / str(number)).touch()
    while len(list(Path(folder).iterdir())) < count:
        await asyncio.sleep(0.01)
    return [number, os.getpid()]


async def wait(seconds, block):
    time.sleep(block)
    await asyncio.sleep(seconds)
    return seconds


async def end_process(number):
    if number == 1:
        await asyncio.sleep(0.2)
        os._exit(3)
    await asyncio.sleep(0.4)
    return number


def fails_first(folder, times, kind):
    """Fails temporarily so many times."""
    before = len(list(Path(folder).iterdir()))
    if before < times:
        (Path(folder) / str(before)).touch()
        raise {"own": Temporary, "connection": ConnectionRefusedError, "time": TimeoutError}[kind](
            "not now"
        )
    return before


def fork_and_return(number):
    os.fork()
    return number


def leave_behind(file):
    child = subprocess.Popen(["sleep", "1000"])
    Path(file).write_text(str(child.pid))
    return child.pid


def say_and_hang(file):
    Path(file).write_text(str(os.getpid()))
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    loop()


class Above:
    def __init__(self, *, threshold):
        if threshold < 0:
            raise ValueError("a threshold below 0")
        self.threshold = threshold

    def __call__(self, number):
        return number > self.threshold


def logs(trainer_state, log_metric):
    log_metric("twice", 2 * trainer_state.global_step)
    return [1.0]


def emptied(what):
    count = len(what)
    what.clear()
    return count


def rest(seconds):
    time.sleep(seconds)
    return seconds
