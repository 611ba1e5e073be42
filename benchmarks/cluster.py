"""Measure a cluster: ``python benchmarks/cluster.py [STEPS] [MEGABYTES] [WORD ...]``.

The demo's GRPO step is run with rollouts in this process, then with ``cluster=local``; a third run,
in this process with ``collector=delayed``, must have the metrics of the run on the cluster. Seconds
are of the wall clock, so that two free cores are needed. The transport of a step (weights out,
prompts out, rows in) is measured in CPU seconds of the run's process, and so is the publishing of
weights of MEGABYTES.

``--batches 1 10`` measures instead the rows that pass through the run's process, for 1 and 10 times
the demo's batch, from rollouts by the untrained policy: their bytes, and the CPU to receive them.
"""

import argparse
import contextlib
import io
import json
import multiprocessing
import statistics
import sys
import tempfile
import time
from multiprocessing.reduction import ForkingPickler
from pathlib import Path

import torch
from measure import emit, gate, row

from components.cluster.local import LocalCluster
from rlcomp.config.compose import compose_config
from rlcomp.config.resolve import plan_of
from rlcomp.interfaces.cluster import RolloutReply
from rlcomp.metrics import Ledger
from rlcomp.run.launch import launch
from rlcomp.run.parts import build
from rlcomp.run.remote import RemoteStages
from rlcomp.run.stages import empty_batch

# Number of first steps that are not measured: the first one waits for a worker to import torch.
UNMEASURED = 2
WORDS = ("recipe=grpo", "~phases.warm_start", "phases.rl.every={}")


def steps_of(words, steps):
    """Return the metrics of each step of a run."""
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        words = [*WORDS, *words, f"phases.rl.steps={steps + UNMEASURED}", f"directory={folder}"]
        config = compose_config(words)
        launch(config, plan_of(config))
        lines = (Path(folder) / "metrics.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def reproducible_metrics(rows):
    """Return the metrics of each step without times and without a cluster's metrics."""
    return [
        {name: v for name, v in row.items() if not name.startswith(("time/", "cluster/"))}
        for row in rows
    ]


def median(rows, name):
    """Return the median of a metric over the measured steps."""
    return statistics.median(row[name] for row in rows[UNMEASURED:])


@contextlib.contextmanager
def clocked_transport():
    """Yield a list to which every call of remote stages adds its CPU seconds."""
    seconds, original = [], RemoteStages.forward

    def clocked(stage, batch):
        start = time.process_time()
        rows = original(stage, batch)
        seconds.append(time.process_time() - start)
        return rows

    RemoteStages.forward = clocked
    try:
        yield seconds
    finally:
        RemoteStages.forward = original


def weights_seconds(megabytes, repeats=20):
    """Return the CPU seconds to publish weights; a worker needs as many to load them."""
    cluster = LocalCluster()
    size = int(megabytes * 1e6)
    cluster._ring = torch.zeros(3, size, dtype=torch.uint8).share_memory_()
    cluster._stamps, cluster._published = torch.full((3,), -1), 0
    weights = [torch.ones(size // 4).view(torch.uint8)]
    seconds = []
    for _ in range(repeats + 3):  # the first three calls write each buffer for the first time
        start = time.process_time()
        cluster.publish(weights)
        seconds.append(time.process_time() - start)
    return statistics.median(seconds[3:])


def batches(multiples, repeats=5):
    """Print what a step's rows cost the run's process, by multiples of the demo's batch."""
    print("| batch | rows | bytes | CPU to pickle (a worker), ms | CPU to take in (the run), ms |")
    print("|---|---|---|---|---|")
    for multiple in multiples:
        parts = build("recipe=grpo", f"prompts.batch_size={64 * multiple}")
        with torch.no_grad():
            rows = parts["rollout"](parts["prompts"](empty_batch()))
        pickling, receiving = [], []
        for _ in range(repeats):
            start = time.process_time()
            data = bytes(ForkingPickler.dumps(RolloutReply(0, 0, rows, Ledger(), 0.0)))
            pickling.append(time.process_time() - start)
            receiving.append(receive_seconds(data))
        figures = [statistics.median(seconds) * 1e3 for seconds in (pickling, receiving)]
        print(
            f"| {multiple}x | {len(rows):,} | {len(data):,} | {figures[0]:.1f} | {figures[1]:.1f} |"
        )


def receive_seconds(data):
    """Return this process's CPU seconds to read a message from a pipe and unpickle it."""
    here, there = multiprocessing.Pipe()
    child = multiprocessing.get_context("fork").Process(target=there.send_bytes, args=(data,))
    child.start()
    start = time.process_time()
    here.recv()
    seconds = time.process_time() - start
    child.join()
    return seconds


def main(steps, megabytes, words):
    """Measure steps with rollouts in this process and on a local cluster."""
    here = steps_of([*words, "collector@rollout=delayed"], steps)
    alone = steps_of(words, steps)
    with clocked_transport() as seconds:
        there = steps_of([*words, "collector@rollout=delayed", "cluster=local"], steps)
    differing = sum(a != b for a, b in zip(*map(reproducible_metrics, (here, there)), strict=True))
    same = gate("steps that differ from delayed ones", differing, 0)
    step, beside = median(alone, "time/step"), median(there, "time/step")
    rollout = median(there, "cluster/made")
    learner = beside - median(there, "time/rollout")
    moved = statistics.median(seconds[UNMEASURED:])
    made = f"rollout {median(alone, 'time/rollout'):.3g} s of {step:.3g} s"
    emit(
        [
            row(
                f"cluster=local, a step over one without ({made})",
                beside / step,
                goal=0.75,
                most=True,
                parity=[same],
                seconds={"here": step, "local": beside, "made": rollout},
            ),
            row(
                "cluster=local, waited for, of the shorter of rollout and the rest",
                median(there, "cluster/waited") / min(rollout, learner),
                unit="%",
                goal=0.05,
                most=True,
                parity=[same],
            ),
            row(
                "cluster=local, CPU of transport, a step",
                moved * 1e3,
                unit="ms",
                goal=20,
                most=True,
            ),
            row(
                f"cluster=local, CPU to publish {megabytes:g} MB",
                weights_seconds(megabytes) * 1e3,
                unit="ms",
                goal=10,
                most=True,
            ),
        ]
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("steps", nargs="?", type=int, default=20)
    parser.add_argument("megabytes", nargs="?", type=float, default=40.0)
    parser.add_argument("words", nargs="*", default=[])
    parser.add_argument("--batches", nargs="+", type=int, default=[])
    given = parser.parse_args()
    torch.set_num_threads(1)
    if given.batches:
        batches(given.batches)
        sys.exit()
    main(given.steps, given.megabytes, given.words)
