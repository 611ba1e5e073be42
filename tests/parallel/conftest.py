"""Ranks in a test: forked processes, each with torchrun's words, under an alarm."""

import faulthandler
import gc
import multiprocessing
import os
import pickle
import queue
import socket
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest


@dataclass
class Ended:
    """How a rank ended: what it gave, or the error it raised; neither where it hung or died."""

    value: Any = None
    error: str | None = None
    there: bool = False
    stack: str = ""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _be(
    rank: int, size: int, port: int, function: Callable[..., Any], told: Any, stack: Any = None
) -> None:
    # A group that a test in the parent process had would wait for threads that are not here.
    gc.freeze()
    if stack is not None:  # where it hangs, if it does
        faulthandler.dump_traceback_later(stack[1], file=stack[0])
    words = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": size, "MASTER_PORT": port}
    os.environ |= {name: str(value) for name, value in words.items()}
    os.environ["MASTER_ADDR"] = "127.0.0.1"
    try:
        ended = Ended(function(), None, there=True)
    except BaseException:
        ended = Ended(None, traceback.format_exc(), there=True)
    told.put(pickle.dumps((rank, ended)))


@pytest.fixture
def start_ranks() -> Iterator[Callable[..., list[Any]]]:
    """``start_ranks(size, function)``: the processes, which run on; killed when the test ends."""
    started = []

    def start(size: int, function: Callable[[], Any]) -> list[Any]:
        context = multiprocessing.get_context("fork")
        told, port = context.Queue(), free_port()
        for rank in range(size):
            process = context.Process(target=_be, args=(rank, size, port, function, told))
            process.start()
            started.append(process)
        return started

    yield start
    for process in started:
        process.kill()
        process.join()


@pytest.fixture
def ranks_of(tmp_path) -> Callable[..., list[Ended]]:
    """``ranks_of(size, function)``: runs it in so many processes that share a group.

    Forked, so that nothing is imported anew; killed after ``alarm`` seconds.
    """

    def run(size: int, function: Callable[[], Any], alarm: float = 40.0) -> list[Ended]:
        context = multiprocessing.get_context("fork")
        told, port = context.Queue(), free_port()
        stacks = [
            ((tmp_path / f"stack-{size}-{rank}").open("w"), alarm / 2) for rank in range(size)
        ]
        processes = [
            context.Process(target=_be, args=(rank, size, port, function, told, stack))
            for rank, stack in enumerate(stacks)
        ]
        gc.collect()
        for process in processes:
            process.start()
        found, until = [Ended() for _ in range(size)], time.monotonic() + alarm
        while not all(one.there for one in found) and time.monotonic() < until:
            dead = [not process.is_alive() for process in processes]
            try:
                rank, ended = pickle.loads(told.get(timeout=0.3))
                found[rank] = ended
            except queue.Empty:  # whoever is not there died or hangs
                if all(one.there or gone for one, gone in zip(found, dead, strict=True)):
                    break
        for process, (stack, _), one in zip(processes, stacks, found, strict=True):
            process.kill()
            process.join()
            stack.close()
            one.stack = Path(stack.name).read_text()
        return found

    return run


@pytest.fixture
def of_all(ranks_of) -> Callable[..., list[Any]]:
    """As ``ranks_of``, of ranks that all come to their end: what each gave."""

    def run(size: int, function: Callable[[], Any], alarm: float = 40.0) -> list[Any]:
        ended = ranks_of(size, function, alarm)
        for rank, one in enumerate(ended):
            assert one.error is None, f"rank {rank} of {size}: {one.error}"
            assert one.there, f"rank {rank} of {size} hung: {[each.stack for each in ended]}"
        return [one.value for one in ended]

    return run
