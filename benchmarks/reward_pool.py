"""Measure the cost of the reward pool: ``python benchmarks/reward_pool.py [CALLS] [LIMIT]``.

Two rows, both by the wall clock, with two workers on two cores. The first row is the time of CALLS
calls of 5 ms over the shortest possible time (each worker busy all the time). The second row is a
batch of 256 calls with eight hostile ones: an endless loop, a fork bomb, a huge power, a regular
expression that backtracks for ever, a polynomial multiplied out, a segmentation fault, an exit and
a print of a gigabyte. Its value is the time of the batch beyond LIMIT, the seconds of one call;
every good call must be scored right.
"""

import argparse
import ctypes
import os
import re
import sys
import time
from pathlib import Path

from measure import emit, gate, row

from rlcomp.workers.executor import ReturnedCall
from rlcomp.workers.pool import WorkerPool

WORKERS = 2
SECONDS = 0.005
ROWS = 256
# Goals: most time, as a multiple of the shortest time; most seconds beyond the limit.
GOAL, BEYOND = 2.0, 2.0


def five_ms(number):
    """Return the number after 5 ms of work."""
    end = time.perf_counter() + SECONDS
    while time.perf_counter() < end:
        pass
    return number


def fork_bomb():
    """Start 256 processes that never end."""
    for _ in range(8):
        os.fork()
    while True:
        time.sleep(0.1)


def loop():
    """Loop for ever."""
    while True:
        pass


def multiply_out():
    """Multiply (1 + x)^n out, for ever larger n, as a symbolic program does with a huge power."""
    terms = [1]
    while True:
        terms = [a + b for a, b in zip([*terms, 0], [0, *terms], strict=True)]


HOSTILE = {
    "loop": loop,
    "fork bomb": fork_bomb,
    "power": lambda: str(10**10**8),
    "regular expression": lambda: re.match(r"(a+)+$", "a" * 40 + "b"),
    "symbolic": multiply_out,
    "segmentation fault": lambda: ctypes.string_at(0),
    "exit": lambda: sys.exit(0),
    "print": lambda: [print("x" * 2**20) for _ in range(2**10)],
}


def judged(response, answer):
    """Return 1 for a right answer; run the hostile one that a response names."""
    return float(response == answer) if response not in HOSTILE else HOSTILE[response]()


def good(pool, calls):
    """Return the seconds of some good calls, and the number of wrong results."""
    start = time.perf_counter()
    outcomes = pool.map("reward_pool.five_ms", [{"number": n} for n in range(calls)], timeout=10.0)
    seconds = time.perf_counter() - start
    return seconds, sum(outcome.value != n for n, outcome in enumerate(outcomes))


def hostile(pool, limit):
    """Return the seconds of a batch with every hostile call, and the number of wrong outcomes.

    An outcome is wrong if a good call is not scored right, or a hostile call returns.
    """
    texts = [str(n) for n in range(ROWS)]
    for place, name in enumerate(HOSTILE):
        texts[ROWS // len(HOSTILE) * place] = name
    start = time.perf_counter()
    calls = [{"response": text, "answer": text} for text in texts]
    outcomes = pool.map("reward_pool.judged", calls, timeout=limit)
    seconds = time.perf_counter() - start
    wrong = 0
    for text, outcome in zip(texts, outcomes, strict=True):
        if text in HOSTILE:
            wrong += isinstance(outcome, ReturnedCall)
        else:
            wrong += outcome != ReturnedCall(1.0, outcome.seconds)
    return seconds, wrong


def main(calls, limit):
    """Measure good calls, then a batch with hostile ones."""
    sys.path.insert(0, str(Path(__file__).parent))
    pool = WorkerPool(num_workers=WORKERS)
    try:
        good(pool, WORKERS)  # starts the workers
        seconds, wrong = good(pool, calls)
        ideal = calls * SECONDS / WORKERS
        batch_seconds, wrong_outcomes = hostile(pool, limit)
    finally:
        pool.close()
    right = gate("wrong scores", wrong, 0)
    rows = [
        row(
            f"reward pool, {calls:,} x 5 ms",
            seconds / ideal,
            goal=GOAL,
            most=True,
            parity=[right],
            seconds=seconds,
        ),
        row(
            f"reward pool, {ROWS} calls with {len(HOSTILE)} mistakes, beyond the limit",
            batch_seconds - limit,
            unit="s",
            goal=BEYOND,
            most=True,
            parity=[gate("wrong outcomes", wrong_outcomes, 0)],
            seconds=batch_seconds,
        ),
    ]
    emit(rows)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("calls", nargs="?", type=int, default=1024)
    parser.add_argument("limit", nargs="?", type=float, default=2.0)
    given = parser.parse_args()
    main(given.calls, given.limit)
