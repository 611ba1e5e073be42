"""Measure a GPU: ``python benchmarks/gpu.py [PHASE ...] [--size 1.5B] [--quick]``.

It takes at most ten minutes and needs no network: the models have random weights. Each phase is a
process of its own with its own deadline, and each row is printed as soon as it is known. A phase
that is late or fails keeps its rows, and gets one more with the reason. Shares are relative to the
rates that the first phase measured on the same device. ``--quick`` takes tiny sizes and also runs
on a CPU, only to see that everything runs.
"""

import argparse
import json
import subprocess
import sys
import threading
import time
from pathlib import Path

from measure import goal_cell, parity_cell, value_cell, verdict

# Seconds of each phase. With the start of five processes they sum to less than ten minutes.
DEADLINES = {"device": 60, "parity": 60, "rollout": 150, "update": 150, "step": 120}
SIZES = ("0.5B", "1.5B")
COLUMNS = ("row", "value", "goal", "met", "parity", "measured", "peer")
SCRIPT = Path(__file__).with_name("gpu_phases.py")


def run(phase, sizes, peaks, deadline):
    """Yield the rows of a phase as it prints them, and a row with the reason if it is cut short."""
    command = [sys.executable, str(SCRIPT), phase, json.dumps(peaks), *sizes]
    late = threading.Event()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:

        def stop():
            late.set()
            process.kill()

        timer = threading.Timer(deadline, stop)
        timer.start()
        for line in process.stdout:
            yield json.loads(line)
        code = process.wait()
        timer.cancel()
    if late.is_set():
        yield {"row": phase, "met": False, "note": f"stopped at its deadline of {deadline} s"}
    elif code:
        yield {"row": phase, "met": False, "note": f"stopped with exit code {code}"}


def line_of(entry):
    """Return a row as a line of the table; a row without a value has a note with the reason."""
    measured = [f"{name} {value}" for name, value in entry.get("figures", {}).items()]
    peers = [f"{name}: {text}" for name, text in entry.get("peers", {}).items()]
    if "note" in entry:
        cells = [entry["row"], entry["note"], "-", verdict(entry), "-"]
    else:
        parity = "; ".join(parity_cell(check) for check in entry["parity"]) or "-"
        value = value_cell(entry["value"], entry["unit"])
        cells = [entry["row"], value, goal_cell(entry), verdict(entry), parity]
    return "| " + " | ".join([*cells, ", ".join(measured) or "-", "; ".join(peers) or "-"]) + " |"


def main(phases, sizes, file):
    """Run the phases, one after the other."""
    print("| " + " | ".join(COLUMNS) + " |\n|" + "---|" * len(COLUMNS), flush=True)
    rows, peaks = [], {}
    for phase in [name for name in DEADLINES if name in (phases or DEADLINES)]:
        start = time.monotonic()
        for entry in run(phase, sizes, peaks, DEADLINES[phase]):
            peaks |= entry.get("peaks", {})
            rows.append({"phase": phase, **entry})
            print(line_of(entry), flush=True)
        print(f"{phase}: {time.monotonic() - start:.0f} s", file=sys.stderr, flush=True)
    if file:
        Path(file).write_text(json.dumps(rows, indent=1) + "\n")
    print(json.dumps(rows), flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("phases", nargs="*", metavar="PHASE", help=", ".join(DEADLINES))
    parser.add_argument("--size", choices=SIZES, help="of the models; both if not given")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", metavar="FILE")
    arguments = parser.parse_args()
    if unknown := set(arguments.phases) - set(DEADLINES):
        parser.error(f"no phase is {', '.join(unknown)}: {', '.join(DEADLINES)}")
    sizes = [arguments.size] if arguments.size else SIZES
    main(arguments.phases, ["tiny"] if arguments.quick else sizes, arguments.json)
