"""A GRPO step against TRL's: ``python benchmarks/step.py S|M|L|hostile|tiny [DRAWS] [REPEATS]``.

Sampling, reward, reference where there is a KL, advantage, loss, backward, AdamW. Each engine has a
process of its own, so that its peak of memory is its own; they step by turns.
"""

import argparse
import importlib.util
import json
import subprocess
import sys
from pathlib import Path

from measure import Timing, absent, against, emit, row

PEER = "trl"
GOALS = {"S": 9.0, "M": 8.0, "L": 8.0, "hostile": 5.0}
MEMORY = {"L": 0.5}
HERE = Path(__file__).parent


class Engine:
    """A process that steps when it is told to."""

    def __init__(self, script, name, steps):
        command = [sys.executable, str(HERE / script), name, str(steps)]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self.process = subprocess.Popen(command, **pipes)
        self.timing = Timing()
        self.peak = 0

    def step(self, draw, counted=True):
        """One step."""
        self.process.stdin.write(f"{draw}\n")
        self.process.stdin.flush()
        answer = self.answer()
        if counted:
            self.timing.add(draw, answer["seconds"], answer["work"])
        self.peak = answer["peak"]

    def answer(self):
        """What the process says next."""
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"{self.process.args[1]} stopped: see above")
        return json.loads(line)


def memory_row(name, engines, parity):
    """Peak memory of ours as a share of the peer's, libraries included."""
    ours, peer = engines["rlcomp"].peak, engines[PEER].peak
    facts = {"bytes": {"rlcomp": ours, PEER: peer}}
    return row(
        f"step {name}, peak memory",
        ours / peer,
        goal=MEMORY.get(name),
        unit="x",
        most=True,
        parity=parity,
        **facts,
    )


def main(name, draws, repeats):
    """Measure one workload."""
    label = f"GRPO step {name}"
    if importlib.util.find_spec("trl") is None:
        missing = [absent(label, GOALS.get(name))]
        missing += [absent(f"step {name}, peak memory", MEMORY[name], True)] * (name in MEMORY)
        return emit(missing)
    steps = 1 + draws * repeats
    scripts = {"rlcomp": "step_rlcomp.py", PEER: "step_trl.py"}
    engines = {engine: Engine(script, name, steps) for engine, script in scripts.items()}
    for engine in engines.values():
        engine.step(0, counted=False)
    for _ in range(repeats):
        for draw in range(draws):
            for engine in engines.values():
                engine.step(draw)
    parity = engines["rlcomp"].answer()["parity"]
    timings = {engine: entry.timing for engine, entry in engines.items()}
    goal = GOALS.get(name)
    time = against(label, timings, PEER, goal=goal, parity=parity)
    emit([time, memory_row(name, engines, parity)])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("workload", choices=[*GOALS, "tiny"])
    parser.add_argument("draws", type=int, nargs="?")
    parser.add_argument("repeats", type=int, nargs="?", default=2)
    arguments = parser.parse_args()
    draws = arguments.draws or (3 if arguments.workload == "L" else 4)
    main(arguments.workload, draws, arguments.repeats)
