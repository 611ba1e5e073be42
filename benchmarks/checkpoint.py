"""Measure the cost of checkpoints: ``python benchmarks/checkpoint.py [STEPS] [WORKLOAD]``.

Each GRPO step is followed by a checkpoint of the whole run: weights, both moments of the optimiser,
generators. The row is the CPU seconds of a checkpoint as a share of the CPU seconds of the steps
between two checkpoints at the default interval (``phases.rl.every.checkpoint`` of ``recipe=grpo``).
The JSON has the same share by the wall clock, which also waits for the disk. The last checkpoint is
read back and compared with the tensors of the run.
"""

import argparse
import tempfile
import time
from pathlib import Path

import torch
from measure import emit, gate, row
from step_rlcomp import stages_of
from workloads import STEPS, build

from rlcomp import Component, Phase, run_phases
from rlcomp.checkpoint.reader import open_checkpoint
from rlcomp.checkpoint.state import collect
from rlcomp.checkpoint.writer import Checkpoint
from rlcomp.config.compose import compose_config

GOAL = 0.05  # largest share of the steps' CPU seconds


class Clock(Component):
    """The last stage: clocks each step, and the checkpoint after it.

    Args:
        nodes: nodes of the run, which the checkpoints hold.
        directory: directory of the checkpoints.
    """

    def __init__(self, nodes, directory):
        super().__init__()
        self.nodes = nodes
        self.checkpoint = Checkpoint(directory=directory, keep=2)
        self.started = now()
        self.steps, self.saves = [], []
        self.path = None

    def forward(self, batch):
        """Record the step that ends here, save a checkpoint, and begin the next step."""
        ended = now()
        total = len(self.steps) + 1
        place = {"phase": 0, "step": total, "total": total, "seed": 0, "trackers": {}}
        self.path = self.checkpoint.save(self.nodes, place)
        self.steps.append(ended - self.started)
        self.started = now()
        self.saves.append(self.started - ended)
        return batch


def now():
    """Return the seconds of the CPU and of the wall clock, ``[2]``."""
    return torch.tensor([time.process_time(), time.perf_counter()], dtype=torch.float64)


def difference(nodes, path):
    """Return the largest difference between a checkpoint and the tensors of the run."""
    held, saved = collect(nodes)[0], open_checkpoint(path).tensors()
    assert held.keys() == saved.keys()
    return max(float((held[n].double() - saved[n].double()).abs().max()) for n in held)


def main(steps, name):
    """Measure the checkpoints of ``steps`` steps of a workload."""
    torch.set_num_threads(1)
    interval = compose_config(["recipe=grpo"]).phases.rl.every.checkpoint
    workload = STEPS[name]
    tokenizer, policy, texts = build(workload)
    stages, _ = stages_of(workload, tokenizer, policy, texts)
    nodes = {type(stage).__name__: stage for stage in [*stages, policy]}
    with tempfile.TemporaryDirectory() as directory:
        clock = Clock(nodes, directory)
        clock.started = now()
        run_phases({"rl": Phase(steps + 1, [*stages, clock])}, nodes=nodes, seed=0)
        parity = [gate("checkpoint", difference(nodes, clock.path), 0)]
        size = sum(file.stat().st_size for file in Path(clock.path).iterdir())
    # The first step warms up.
    step, wall_step = torch.stack(clock.steps[1:]).median(0).values.tolist()
    save, wall_save = torch.stack(clock.saves[1:]).median(0).values.tolist()
    seconds = [float(times[0]) for times in clock.saves[1:]]
    facts = {
        "ours": save,
        "step_seconds": step,
        "wall_share": wall_save / (interval * wall_step),
        "interval": interval,
        "parameters": sum(weight.numel() for weight in policy.parameters()),
        "mebibytes": size / 2**20,
        "spread": max(seconds) / min(seconds),
    }
    share = save / (interval * step)
    what = f"checkpoint {name}, every {interval} steps"
    emit([row(what, share, goal=GOAL, unit="%", most=True, parity=parity, **facts)])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("steps", type=int, nargs="?", default=10)
    parser.add_argument("workload", choices=STEPS, nargs="?", default="M")
    arguments = parser.parse_args()
    main(arguments.steps, arguments.workload)
