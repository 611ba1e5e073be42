"""A GRPO step against TRL's: ``python benchmarks/step.py S|M|L|hostile|tiny [DRAWS] [REPEATS]``.

A step has sampling, reward, reference (if the workload has a KL), advantage, loss, backward and
AdamW. rlcomp and TRL step by turns, each in a process of its own, so that their peaks of memory are
separate. With ``--linear torch`` rlcomp uses torch's product in linear layers, as TRL does.
"""

import argparse
import importlib.util
import json
import subprocess
import sys
from pathlib import Path

from measure import Timing, absent, against, emit, row

PEER = "trl"
GOALS = {"S": 9.0, "M": 8.0, "L": 8.0, "hostile": 5.0}  # least speed-up over TRL
MEMORY = {"L": 0.5}  # largest share of TRL's peak memory
HERE = Path(__file__).parent


class StepProcess:
    """A process that runs a step at each request; ``script`` uses :class:`turn.Turns`."""

    def __init__(self, script, *arguments):
        command = [sys.executable, str(HERE / script), *map(str, arguments)]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self.process = subprocess.Popen(command, **pipes)
        self.timing = Timing()
        self.peak = 0

    def step(self, draw, counted=True):
        """Run one step with the seed ``draw``; if ``counted``, add its time."""
        self.process.stdin.write(f"{draw}\n")
        self.process.stdin.flush()
        answer = self.answer()
        if counted:
            self.timing.add(draw, answer["seconds"], answer["work"])
        self.peak = answer["peak"]

    def answer(self):
        """Return the next line of the process."""
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"{self.process.args[1]} stopped: see above")
        return json.loads(line)


def memory_row(name, label, engines, parity):
    """Return the row of our peak memory as a share of the peer's, libraries included."""
    ours, peer = engines["rlcomp"].peak, engines[PEER].peak
    facts = {"bytes": {"rlcomp": ours, PEER: peer}}
    return row(
        f"step {label}, peak memory",
        ours / peer,
        goal=MEMORY.get(name),
        unit="x",
        most=True,
        parity=parity,
        **facts,
    )


def main(name, draws, repeats, linear="auto"):
    """Measure one workload."""
    label = name if linear == "auto" else f"{name}, linear={linear}"
    goal = GOALS.get(name) if linear == "auto" else None
    if importlib.util.find_spec("trl") is None:
        missing = [absent(f"GRPO step {label}", goal)]
        missing += [absent(f"step {label}, peak memory", MEMORY[name], True)] * (name in MEMORY)
        return emit(missing)
    steps = 1 + draws * repeats
    engines = {
        "rlcomp": StepProcess("step_rlcomp.py", name, steps, linear),
        PEER: StepProcess("step_trl.py", name, steps),
    }
    for engine in engines.values():
        engine.step(0, counted=False)
    for _ in range(repeats):
        for draw in range(draws):
            for engine in engines.values():
                engine.step(draw)
    parity = engines["rlcomp"].answer()["parity"]
    timings = {engine: entry.timing for engine, entry in engines.items()}
    time_row = against(f"GRPO step {label}", timings, PEER, goal=goal, parity=parity)
    emit([time_row, memory_row(name, label, engines, parity)])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("workload", choices=[*GOALS, "tiny"])
    parser.add_argument("draws", type=int, nargs="?")
    parser.add_argument("repeats", type=int, nargs="?", default=2)
    parser.add_argument("--linear", choices=["auto", "torch"], default="auto")
    arguments = parser.parse_args()
    draws = arguments.draws or (3 if arguments.workload == "L" else 4)
    main(arguments.workload, draws, arguments.repeats, arguments.linear)
