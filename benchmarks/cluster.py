"""Measure a cluster: ``python benchmarks/cluster.py [STEPS] [MEGABYTES] [WORD ...]``.

The demo's GRPO step, with rollouts here and by ``cluster=local``, one after the other: seconds on
the clock, so that two free cores are needed. What a step's transport costs is CPU of the run's
process: weights out, prompts out, rows in. Weights are published, of so many megabytes.

``--batches 1 10`` measures instead what passes through the run's process for so many times the
demo's batch, its rollouts by the untrained policy: bytes of the rows, and CPU to take them in.
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

# Steps that wait for a worker to import torch, and the one behind them.
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


def lasting(rows):
    """Return metrics without times and without those of a cluster."""
    return [
        {name: v for name, v in row.items() if not name.startswith(("time/", "cluster/"))}
        for row in rows
    ]


def median(rows, name):
    """The median of a metric over the steps that are measured."""
    return statistics.median(row[name] for row in rows[UNMEASURED:])


@contextlib.contextmanager
def transport():
    """Context that notes the CPU seconds of every call of remote stages."""
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
    """CPU seconds to publish weights; a worker needs as many to load them, beside the run."""
    cluster = LocalCluster()
    size = int(megabytes * 1e6)
    cluster._ring = torch.zeros(3, size, dtype=torch.uint8).share_memory_()
    cluster._stamps, cluster._published = torch.full((3,), -1), 0
    mine = [torch.ones(size // 4).view(torch.uint8)]
    found = []
    for _ in range(repeats + 3):  # every buffer is written once before
        start = time.process_time()
        cluster.publish(mine)
        found.append(time.process_time() - start)
    return statistics.median(found[3:])


def batches(multiples, repeats=5):
    """Print what a step's rows cost the run's process, by multiples of the demo's batch."""
    print("| batch | rows | bytes | CPU to pickle (a worker), ms | CPU to take in (the run), ms |")
    print("|---|---|---|---|---|")
    for multiple in multiples:
        parts = build("recipe=grpo", f"prompts.batch_size={64 * multiple}")
        with torch.no_grad():
            rows = parts["rollout"](parts["prompts"](empty_batch()))
        made, taken = [], []
        for _ in range(repeats):
            start = time.process_time()
            data = bytes(ForkingPickler.dumps(RolloutReply(0, 0, rows, Ledger(), 0.0)))
            made.append(time.process_time() - start)
            taken.append(received(data))
        figures = [statistics.median(each) * 1e3 for each in (made, taken)]
        print(
            f"| {multiple}x | {len(rows):,} | {len(data):,} | {figures[0]:.1f} | {figures[1]:.1f} |"
        )


def received(data):
    """CPU seconds of this process to read a message from a pipe and unpickle it."""
    here, there = multiprocessing.Pipe()
    child = multiprocessing.get_context("fork").Process(target=there.send_bytes, args=(data,))
    child.start()
    start = time.process_time()
    here.recv()
    seconds = time.process_time() - start
    child.join()
    return seconds


def main(steps, megabytes, words):
    """Measure."""
    here = steps_of([*words, "collector@rollout=delayed"], steps)
    alone = steps_of(words, steps)
    with transport() as seconds:
        there = steps_of([*words, "collector@rollout=delayed", "cluster=local"], steps)
    differing = sum(a != b for a, b in zip(lasting(here), lasting(there), strict=True))
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
