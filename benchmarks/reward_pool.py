"""Measure the cost of the reward pool: ``python benchmarks/reward_pool.py [CALLS] [LIMIT]``.

Two rows, both by the wall clock, with two workers on two cores. The first is what so many calls of
5 ms take over the least they could (5 ms a call and worker). The second is by how much a batch of
256 calls, among which are an endless loop, a fork bomb, a huge power, a regular expression that
backtracks for ever, a polynomial multiplied out, a segmentation fault, an exit and a print of a
gigabyte, outlasts the limit of one call; every good call must be scored right.
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
# At most so many times the ideal; so many seconds beyond the limit.
GOAL, BEYOND = 2.0, 2.0


def five_ms(number):
    """The number, after 5 ms of work."""
    end = time.perf_counter() + SECONDS
    while time.perf_counter() < end:
        pass
    return number


def fork_bomb():
    """Bounded: 256 processes that never end."""
    for _ in range(8):
        os.fork()
    while True:
        time.sleep(0.1)


def loop():
    """An endless loop."""
    while True:
        pass


def multiply_out():
    """(1 + x)^n, term by term: a symbolic program that was asked for too much."""
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
    """Seconds of so many good calls, and how many are wrong."""
    start = time.perf_counter()
    outcomes = pool.map("reward_pool.five_ms", [{"number": n} for n in range(calls)], timeout=10.0)
    seconds = time.perf_counter() - start
    return seconds, sum(one.value != n for n, one in enumerate(outcomes))


def hostile(pool, limit):
    """Seconds of a batch with every mistake, and how many good calls are not scored right."""
    texts = [str(n) for n in range(ROWS)]
    for place, name in enumerate(HOSTILE):
        texts[ROWS // len(HOSTILE) * place] = name
    start = time.perf_counter()
    calls = [{"response": text, "answer": text} for text in texts]
    outcomes = pool.map("reward_pool.judged", calls, timeout=limit)
    seconds = time.perf_counter() - start
    pairs = list(zip(texts, outcomes, strict=True))
    lost = sum(text not in HOSTILE and one != ReturnedCall(1.0, one.seconds) for text, one in pairs)
    return seconds, lost + sum(
        text in HOSTILE and isinstance(one, ReturnedCall) for text, one in pairs
    )


def main(calls, limit):
    """Measure."""
    sys.path.insert(0, str(Path(__file__).parent))
    pool = WorkerPool(num_workers=WORKERS)
    try:
        good(pool, WORKERS)  # starts the workers
        seconds, wrong = good(pool, calls)
        ideal = calls * SECONDS / WORKERS
        beyond, lost = hostile(pool, limit)
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
            beyond - limit,
            unit="s",
            goal=BEYOND,
            most=True,
            parity=[gate("wrong outcomes", lost, 0)],
            seconds=beyond,
        ),
    ]
    emit(rows)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("calls", nargs="?", type=int, default=1024)
    parser.add_argument("limit", nargs="?", type=float, default=2.0)
    given = parser.parse_args()
    main(given.calls, given.limit)
