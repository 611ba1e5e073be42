"""Workers and their run killed: ``python tests/faults/workers.py [--seeds N] [--points N]``.

At each named point a worker is killed, in another attempt the run itself, and with a request under
way the run is asked to stop, or the worker stops answering. Each must equal the undisturbed run,
and leave no process behind. Writes its table of docs/faults.md; ends with 1 where something
was lost, is another, or hangs.
"""

import argparse
import contextlib
import json
import multiprocessing
import os
import signal
import sys
import tempfile
import time
import uuid
from collections import Counter
from pathlib import Path

import torch
from attempts import DONE, INTERRUPTED, NO_CHECKPOINT, attempt, die, left
from page import write
from recipes import TINY, planned, run_here

from components.cluster.local import LocalCluster
from rlcomp.run.remote import RemoteStages

WORDS = ("recipe=grpo", *TINY, "phases.rl.steps=4", "cluster=local", "cluster.timeout=120")
# Seconds after which a worker that says nothing is ended, where one does.
SILENT = 15
# Each a name, and for which time it is met.
POINTS = (
    ("before publishing weights", 2),
    ("after publishing weights", 3),
    ("before asking a worker", 3),
    ("after asking a worker", 4),
    ("before waiting for a reply", 2),
    ("after waiting for a reply", 2),
    ("before rl: reward", 2),
    ("after a backward pass in rl: learner", 9),
    ("before settling", 3),
    ("half of writing checkpoints/draft of step-00000003/tensors.safetensors", 1),
)
SECONDS = 600
MARK = "RLCOMP_FAULTS"
HEAD = ("what happens", "points", "seeds", "equal", "processes left", "hangs")


def watch_cluster(events):
    """Tell ``events`` of what passes between a run and its workers."""
    events.around(LocalCluster, "publish", lambda *_: "publishing weights")
    events.around(LocalCluster, "ask", lambda *_: "asking a worker")
    events.around(LocalCluster, "receive", lambda *_: "waiting for a reply")
    events.around(RemoteStages, "settle", lambda *_: "settling")


def own_workers():
    """Processes that this one has started, not those of the one that it was forked from."""
    return [one for one in multiprocessing.active_children() if one._parent_pid == os.getpid()]


def kill_workers(name):
    """``kill -9`` of every worker of this process."""
    del name
    for process in own_workers():
        process.kill()


def stop_workers(name):
    """SIGSTOP of every worker of this process: they are there, and say nothing."""
    del name
    for process in own_workers():
        os.kill(process.pid, signal.SIGSTOP)


class Hung(Exception):
    """An attempt took too long."""


@contextlib.contextmanager
def alarm(seconds):
    """Context that is left after so many seconds at the latest."""

    def ring(*_):
        raise Hung

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def processes(mark):
    """Other processes that were started under a mark."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            environment = (place / "environ").read_bytes().split(b"\0")
            state = (place / "stat").read_text().rpartition(")")[2].split()[0]
            if f"{MARK}={mark}".encode() in environment and state != "Z":
                found.append(int(place.name))
    return [process for process in found if process != os.getpid()]


def left_behind(mark, seconds=20):
    """How many of them are there after a while."""
    end = time.monotonic() + seconds
    while (there := processes(mark)) and time.monotonic() < end:
        time.sleep(0.1)
    for process in there:
        os.kill(process, signal.SIGKILL)
    return len(there)


class Trial:
    """A run on workers, for a seed, and what became of it under faults.

    Args:
        folder: for its runs.
        seed: of the runs.
    """

    def __init__(self, folder, seed):
        self.folder, self.seed, self.number = folder, seed, 0
        self.job = planned([*WORDS, f"seed={seed}"])
        self.impatient = planned([*WORDS, f"seed={seed}", f"cluster.timeout={SILENT}"])
        self.counts, self.wrong = Counter(), []
        self.whole = self.attempt(folder / "whole")
        if self.whole.code != DONE:
            raise AssertionError(self.whole.told)
        self.expected = left(folder / "whole" / "run")

    def attempt(self, folder, at=None, act=None, job=None, **settings):
        """One attempt, with what it leaves behind counted."""
        os.environ[MARK] = mark = uuid.uuid4().hex
        try:
            with alarm(SECONDS):
                ended = attempt(job or self.job, folder, at, act, more=watch_cluster, **settings)
        except Hung:
            self.counts["hangs"] += 1
            left_behind(mark, 0)
            raise
        self.counts["left"] += left_behind(mark)
        return ended

    def fault(self, what, point, act, code, job=None):
        """Something happens at a point; the run goes on if it has to, and is the same."""
        self.number += 1
        folder = self.folder / f"{self.number}"
        ended = self.attempt(folder, point, act, job)
        if ended.code != code:
            self.wrong.append(f"{what} {point}: ended with {ended.code}: {ended.told}")
            return
        if code != DONE:
            ended = self.attempt(folder)
            if ended.code == NO_CHECKPOINT:
                ended = self.attempt(folder, overwrite=True)
        mine = left(folder / "run") if ended.code == DONE else {}
        if other := [name for name in self.expected if mine.get(name) != self.expected[name]]:
            self.wrong.append(f"{what} {point}: other {', '.join(other)}, in {folder}")
        else:
            self.counts[what] += 1

    def restarts(self):
        """Workers that were started again in the last attempt."""
        rows = (self.folder / f"{self.number}" / "run" / "metrics.jsonl").read_text().splitlines()
        return sum(json.loads(row).get("cluster/restarts", 0) for row in rows)


def ask_to_stop(name):
    """SIGTERM."""
    del name
    os.kill(os.getpid(), signal.SIGTERM)


FAULTS = {
    "kill -9 of a worker": (kill_workers, DONE),
    "kill -9 of the run": (die, -signal.SIGKILL),
}
STOP = "SIGTERM with a request under way"
SILENCE = "SIGSTOP of a worker with a request under way"
ASKED = ("after asking a worker", 3)


def main(points, seeds):
    """Run all of it, write and tell."""
    torch.set_num_threads(1)
    counts, wrong = Counter(), []
    run_here(planned(["recipe=grpo", *TINY]))  # what is imported here, attempts need not
    for seed in range(seeds):
        with tempfile.TemporaryDirectory(prefix="workers-") as folder:
            trial = Trial(Path(folder), seed)
            for point in POINTS[:points]:
                for what, (act, code) in FAULTS.items():
                    trial.fault(what, point, act, code)
            trial.fault(STOP, ASKED, ask_to_stop, INTERRUPTED)
            trial.fault(SILENCE, ASKED, stop_workers, DONE, trial.impatient)
            counts += trial.counts
            wrong += trial.wrong
            print(seed, dict(trial.counts), *trial.wrong, sep="\n", flush=True)
    rows = []
    for what, met in {**dict.fromkeys(FAULTS, len(POINTS)), STOP: 1, SILENCE: 1}.items():
        equal = f"{counts[what]} of {met * seeds}"
        rows.append([what, met, seeds, equal, counts["left"], counts["hangs"]])
    if (points, seeds) == (len(POINTS), 3):
        write("workers", HEAD, rows)
    print(*rows, sep="\n")
    sys.exit(bool(wrong or counts["left"] or counts["hangs"]))


PARSER = argparse.ArgumentParser(description=__doc__)
PARSER.add_argument("--points", type=int, default=len(POINTS))
PARSER.add_argument("--seeds", type=int, default=3)

if __name__ == "__main__":
    arguments = PARSER.parse_args()
    main(arguments.points, arguments.seeds)
