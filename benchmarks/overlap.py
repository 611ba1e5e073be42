"""What overlap would give a run: ``python benchmarks/overlap.py RUN [--workers N]``.

Reads what the steps of a run took, and goes through the events of schedule ``fixed``: a step asks,
waits for the rollout that was asked for ``staleness`` steps before, and learns; a worker makes one
rollout after the other. Printed are seconds a step, the shares of time in which workers and learner
are busy, and the mean age of rollouts. The cores are taken to be free: where processes share them,
all take longer.

``--check 40`` measures six settings instead, with a real queue, a real second process and sleeps in
the place of work, and prints prediction beside measurement.
"""

import argparse
import json
import random
import statistics
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import torch
from tensordict import TensorDict

from components.cluster.local import LocalCluster
from rlcomp.component import Component
from rlcomp.run.remote import RemoteStages

STALENESS = (0, 1, 2, 4)
# Seconds that a request and its reply take on their way.
TRANSPORT = 0.005
CHECKED = ((0.12, 0.08, 0, 0.0), (0.1, 0.1, 1, 0.0), (0.15, 0.05, 1, 0.5), (0.1, 0.1, 2, 1.0))
CHECKED += ((0.05, 0.15, 1, 0.5), (0.1, 0.1, 4, 1.0))


@dataclass(frozen=True)
class Predicted:
    """What a schedule comes to.

    Attributes:
        step: seconds.
        workers: share of their time in which they make rollouts.
        learner: share of the time in which the run does everything else.
        age: of rollouts, in steps.
    """

    step: float
    workers: float
    learner: float
    age: float


def fixed(rollouts, rest, *, staleness, workers=1, splits=True, transport=TRANSPORT):
    """The events of schedule ``fixed``.

    Args:
        rollouts: seconds of each, on one worker.
        rest: seconds of everything else, of each step.
        staleness: steps between request and use.
        workers: how many.
        splits: whether each of them makes a part of every rollout; else they take turns.
        transport: seconds of a request and its reply.
    """
    free, done, now = [0.0] * workers, [], 0.0
    for number, busy in enumerate(rest):
        while len(done) <= number + staleness:
            asked = len(done)
            mine = range(workers) if splits else [asked % workers]
            # The last requests of a run are for steps that never come.
            seconds = rollouts[min(asked, len(rollouts) - 1)] / len(mine)
            for worker in mine:
                free[worker] = max(free[worker], now) + seconds
            done.append(max(free[worker] for worker in mine))
        now = max(now, done[number]) + transport + busy
    made = sum(rollouts) / workers
    age = statistics.mean(min(number, staleness) for number in range(len(rest)))
    return Predicted(now / len(rest), min(made / now, 1.0), sum(rest) / now, age)


def times_of(run):
    """Seconds of each rollout and of the rest of its step, where a step has one."""
    found = []
    for line in (Path(run) / "metrics.jsonl").read_text().splitlines():
        row = json.loads(line)
        here = row.get("time/rollout")
        if here is not None:
            found.append((row.get("cluster/made", here), row["time/step"] - here))
    if not found:
        sys.exit(f"{run}: no step of metrics.jsonl has time/rollout: name a run with rollouts")
    return [made for made, _ in found], [rest for _, rest in found]


def report(run, workers):
    """Print the table."""
    rollouts, rest = times_of(run)
    together = statistics.mean(rollouts) + statistics.mean(rest)
    print(f"{len(rest)} steps; without a cluster {together:.3g} s a step")
    print("| staleness | seconds a step | of that without | workers busy | rest busy | age |")
    print("|---|---|---|---|---|---|")
    for staleness in STALENESS:
        found = fixed(rollouts, rest, staleness=staleness, workers=workers)
        print(
            f"| {staleness} | {found.step:.3g} | {found.step / together:.2f} "
            f"| {found.workers:.0%} | {found.learner:.0%} | {found.age:.2f} |"
        )


class Sleeping(Component):
    """A rollout that takes as long as it is told."""

    fresh = True

    def forward(self, batch):
        """Sleep."""
        time.sleep(float(batch["seconds"][0]))
        return batch


def drawn(mean, sigma, count, seed):
    """Log-normal seconds of a mean."""
    draw = random.Random(seed)
    return [mean * draw.lognormvariate(-(sigma**2) / 2, sigma) for _ in range(count)]


def measured(remote, rollouts, rest):
    """Seconds a step of a real queue."""
    start = time.perf_counter()
    for seconds, busy in zip(rollouts, rest, strict=True):
        remote(TensorDict({"seconds": torch.tensor([seconds])}, batch_size=[1]))
        time.sleep(busy)
    return (time.perf_counter() - start) / len(rest)


def check(steps):
    """Print predictions beside measurements; the largest error."""
    worst = 0.0
    print("| rollout | rest | staleness | sigma | predicted | measured | error |")
    print("|---|---|---|---|---|---|---|")
    for rollout, learner, staleness, sigma in CHECKED:
        rollouts, rest = (drawn(mean, sigma, steps, n) for n, mean in enumerate((rollout, learner)))
        cluster = LocalCluster(staleness=staleness)
        remote = RemoteStages(stages=[Sleeping()], cluster=cluster)
        first = TensorDict({"seconds": torch.tensor([0.0])}, batch_size=[1])
        try:
            remote(first)  # until the process is there
            remote.begin_phase()
            found = measured(remote, rollouts, rest)
        finally:
            cluster.close()
        # The first step asks for its own prompts several times.
        told = fixed([rollouts[0]] * staleness + rollouts, rest, staleness=staleness).step
        error = found / told - 1
        worst = max(worst, abs(error))
        print(
            f"| {rollout} | {learner} | {staleness} | {sigma} | {told:.3f} | {found:.3f} "
            f"| {error:+.1%} |"
        )
    print(json.dumps([{"row": "overlap, largest error", "value": worst, "unit": "share"}]))
    return worst


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", nargs="?", help="a run's directory")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--check", type=int, default=0, metavar="STEPS")
    given = parser.parse_args()
    if given.check:
        check(given.check)
    elif given.run:
        report(given.run, given.workers)
    else:
        parser.error("name a run, or --check 40")
