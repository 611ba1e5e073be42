"""Checks per second in the sandbox: ``python benchmarks/sandbox.py [JOBS] [REPEATS]``.

A check is a small function with four assertions, in two sandboxed processes; all checks differ. A
row for each number of workers has the rate by the wall clock, with the load average beside it,
because the goal is for an idle machine. One more row has the overhead of a program that does
nothing on a warm worker, in CPU seconds of all processes. Its peer is a new interpreter with the
imports of the tests.
"""

import argparse
import os
import resource
import statistics
import subprocess
import sys
import time

from measure import emit, gate, row

from rlcomp.sandbox.job import CheckJob, StdioJob
from rlcomp.sandbox.sandbox import Sandbox

WORKERS = (1, 2, 4)
GOALS = {1: None, 2: None, 4: 60.0}  # checks per second, on two idle cores
OVERHEAD = 0.015  # CPU seconds of a program
# The number of the check fills the braces, so that all checks differ.
CANDIDATE = "from typing import List\ndef total(xs: List[int]) -> int:\n    return sum(xs) + {}\n"
TESTS = "import math\n" + "".join(f"assert total([1, {i}]) == {i + 1} + {{0}}\n" for i in range(4))
IMPORTS = (
    "import typing, math, re, collections, itertools, functools, heapq, random, json, datetime"
)


def checks(jobs, salt):
    """Return checks that differ from each other, and from the checks of another ``salt``."""
    return [
        CheckJob(CANDIDATE.format(i), (TESTS.format(i),), "total")
        for i in range(salt * jobs, (salt + 1) * jobs)
    ]


def rate(workers, jobs, repeats):
    """Return the row of a number of workers."""
    seconds, failed = [], 0
    with Sandbox(workers=workers) as sandbox:
        sandbox.map(checks(2 * workers, 1000))
        for repeat in range(repeats):
            batch = checks(jobs, repeat)
            start = time.perf_counter()
            outcomes = sandbox.map(batch)
            seconds.append(time.perf_counter() - start)
            failed += sum(outcome.status != "passed" for outcome in outcomes)
    return row(
        f"sandbox, checks per second, {workers} workers (load {os.getloadavg()[0]:.0f})",
        jobs / statistics.median(seconds),
        goal=GOALS[workers],
        unit="/s",
        parity=[gate("checks that failed", failed, 0)],
        spread=max(seconds) / min(seconds),
        cores=os.cpu_count(),
    )


def cpu_of_children():
    """Return the CPU seconds of all child processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def per_program(jobs):
    """Return the CPU seconds of a program on a warm worker, in this process and the sandbox's."""
    spent = []
    for count in (1, jobs + 1):  # the difference leaves out the start of the sandbox
        before = time.process_time() + cpu_of_children()
        with Sandbox(workers=1) as sandbox:
            outcomes = sandbox.map([StdioJob(f"print({i})") for i in range(count)])
        assert [outcome.stdout for outcome in outcomes] == [f"{i}\n" for i in range(count)]
        spent.append(time.process_time() + cpu_of_children() - before)
    return (spent[1] - spent[0]) / jobs


def per_interpreter(jobs):
    """Return the CPU seconds of a new interpreter with the imports."""
    before = cpu_of_children()
    for _ in range(jobs):
        subprocess.run([sys.executable, "-I", "-S", "-c", IMPORTS], check=True)
    return (cpu_of_children() - before) / jobs


def main(jobs, repeats):
    """Measure the rates, then the overhead of a program."""
    rows = [rate(workers, jobs, repeats) for workers in WORKERS]
    ours = [per_program(jobs) for _ in range(repeats)]
    facts = {
        "ours": statistics.median(ours),
        "peer": "new interpreter",
        "peer_seconds": per_interpreter(min(jobs, 20)),
        "spread": max(ours) / min(ours),
    }
    value = 1000 * facts["ours"]
    name = "sandbox, CPU of a warm program"
    rows.append(row(name, value, goal=1000 * OVERHEAD, unit="ms", most=True, **facts))
    emit(rows)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("jobs", type=int, nargs="?", default=120)
    parser.add_argument("repeats", type=int, nargs="?", default=5)
    arguments = parser.parse_args()
    main(arguments.jobs, arguments.repeats)
