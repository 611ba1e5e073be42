"""Measure the overhead of a step: ``python benchmarks/overhead.py [STEPS] [WARM_STEPS]``.

It runs the demo (WARM_STEPS steps of warm start, then STEPS steps of RL) in this process on one
thread. It clocks model mathematics in CPU seconds: the model's forward and backward passes, the
decode loop's forward passes (with its copy of the weights), the optimiser, and the work on logits
(log-probs, entropy, sampling). The time for packing rows and dropping finished rows has a line of
its own, and is no overhead either. All other time is overhead: texts, rewards, masks, TensorDicts,
records, the loop. It prints a table and JSON.
"""

import argparse
import json
import tempfile
import time
from collections import defaultdict
from pathlib import Path

import torch
from omegaconf import OmegaConf

from rlcomp.config.build import Builder
from rlcomp.config.compose import compose_config
from rlcomp.config.resolve import plan_of
from rlcomp.engine import decode_native, draw, scoring
from rlcomp.engine import decode_packed as loop
from rlcomp.engine.transformer import Transformer
from rlcomp.run.launch import build_phase
from rlcomp.run.program import Program
from rlcomp.trackers.tracker import JsonLines

GOAL = 0.10  # largest share of overhead in the CPU seconds of a step


class Clock:
    """CPU seconds by name; a clocked call within a clocked call does not count again."""

    def __init__(self):
        self.seconds = defaultdict(float)
        self.inside = False

    def wrap(self, owner, attribute, name):
        """Clock every call of ``owner.attribute``."""
        original = getattr(owner, attribute)

        def clocked(*args, **kwargs):
            if self.inside:
                return original(*args, **kwargs)
            self.inside, start = True, time.process_time()
            try:
                return original(*args, **kwargs)
            finally:
                self.seconds[name] += time.process_time() - start
                self.inside = False

        setattr(owner, attribute, clocked)


def clock_mathematics(clock, nodes):
    """Clock all model mathematics, and the engine's packing of rows."""
    clock.wrap(Transformer, "forward", "model forward")
    clock.wrap(torch.Tensor, "backward", "model backward")
    for name in ("Fused", "_prefill_chunk"):  # Fused copies the weights
        clock.wrap(loop, name, "decode forward")
    clock.wrap(loop.DecodeLoop, "_step", "decode forward")
    clock.wrap(decode_native, "_rollout", "decode loop in C++, draws included")
    clock.wrap(scoring, "pack", "packing and dropping rows")
    clock.wrap(loop.DecodeLoop, "_compact", "packing and dropping rows")
    for path in ("sft_learner", "learner"):
        clock.wrap(nodes[path].optimizer, "step", "optimiser")
    for name in ("get_total_norm", "clip_grads_with_norm_"):
        clock.wrap(torch.nn.utils, name, "optimiser")
    # Replace the functions in the modules that call them, not where they are defined.
    for owner, name in ((scoring, "compute_in_tiles"), (draw, "draw_tokens")):
        clock.wrap(owner, name, "log-probs, entropy, sampling")


def main(steps, warm_steps):
    """Run both phases, clock the second one, and print the report."""
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as directory:
        settings = [f"directory={directory}", f"phases.rl.steps={steps}"]
        settings += [f"phases.warm_start.steps={warm_steps}"]
        quiet = ["phases.rl.every=null", "phases.warm_start.every=null"]
        config = compose_config([*settings, *quiet])
        plan = plan_of(config)
        builder = Builder(plan, int(config.seed))
        nodes = builder.all()
        phases = {name: build_phase(phase, builder) for name, phase in plan.phases.items()}
        tracker = JsonLines(directory=directory)
        warm, rl = phases.values()
        Program({"warm_start": warm}, nodes=nodes, seed=0, trackers=[tracker]).run()
        clock = Clock()
        clock_mathematics(clock, nodes)
        start = time.process_time()
        Program({"rl": rl}, nodes=nodes, seed=0, trackers=[tracker]).run()
        total = time.process_time() - start
        rows = [json.loads(line) for line in Path(tracker.metrics).read_text().splitlines()]
    report(clock, total, steps, rows, OmegaConf.select(config, "rollout.group_size"))


def report(clock, total, steps, rows, group_size):
    """Print the table and the JSON line."""
    share = 1 - sum(clock.seconds.values()) / total
    for name, seconds in sorted(clock.seconds.items(), key=lambda item: -item[1]):
        print(f"{name:32s} {1000 * seconds / steps:8.2f} ms a step  {seconds / total:6.1%}")
    print(
        f"{'outside model mathematics':32s} {1000 * total / steps * share:8.2f} ms a step"
        f"  {share:6.1%}"
    )
    stages = {key: row for row in rows for key in row if key.startswith("time/")}
    wall = {key: sum(r.get(key, 0.0) for r in rows) / steps for key in stages}
    print("wall milliseconds a step, by stage:")
    for key, seconds in sorted(wall.items(), key=lambda item: -item[1]):
        print(f"  {key.removeprefix('time/'):30s} {1000 * seconds:8.2f}")
    result = {"overhead": share, "goal": GOAL, "step_cpu_seconds": total / steps, "steps": steps}
    print(json.dumps({**result, "group_size": group_size, "torch": torch.__version__}))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("steps", type=int, nargs="?", default=40)
    parser.add_argument("warm_steps", type=int, nargs="?", default=75)
    arguments = parser.parse_args()
    main(arguments.steps, arguments.warm_steps)
