"""Thousands of steps with faults: ``python tests/faults/soak.py [STEPS]``.

A tiny GRPO run is killed (``kill -9``) five times, early, and goes on; all along, rewards
are invalid and losses are not finite. The life after the last kill is measured: what the process
holds (resident memory, descriptors) and the CPU seconds of a step, in its first fifth and its last,
over those of a fixed piece of work beside each step: other processes slow both down.
Prints a table; ends with 1 where something grows, or a step is missing.
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
import traceback
from pathlib import Path
from signal import SIGKILL

import torch
from page import write
from recipes import SMALL, planned, run_here
from soak_parts import PERIOD

from rlcomp.run.launch import launch
from rlcomp.run.program import Program

STEPS = 5000
# After how many steps; a checkpoint is written every 25.
KILLS = (30, 90, 160, 240, 330)
WORDS = (
    "recipe=grpo",
    *SMALL,
    "~phases.warm_start",
    "phases.rl.every={evaluation: 250, checkpoint: 25}",
    "evaluation.num_prompts=4",
    "evaluation.samples_per_prompt=1",
    "prompts.batch_size=2",
    "group_size=4",
    "max_new_tokens=4",
    "learner.num_minibatches=1",
    # Answers stay as long as they are: else a step takes longer because there is more to do.
    "learner.optimizer.lr=1e-9",
    "reward=function",
    "reward.function={_target_: soak_parts.sometimes_judged, _partial_: true}",
    "reward_check.max_invalid_fraction=0.9",
    "learner.gradient_spike.action=count",
    "+spoil._target_=soak_parts.Spoil",
    "+phases.rl.insert.spoil.after=advantage",
)
# The most that may be: KiB of memory a step, CPU seconds of the last steps over those of the first.
MOST = {"KiB a step": 0.5, "CPU time of a step": 1.1}


def lives(job, folder):
    """Killed as often as is meant, then run to its end; the rows of the last life."""
    for until in KILLS:
        life(job, folder, until)
    return life(job, folder)


def life(job, folder, until=None):
    """Run, or go on, in a process of its own; ``kill -9`` once it has done ``until`` steps."""
    notes = folder / "steps"
    notes.unlink(missing_ok=True)
    if not (child := os.fork()):
        _be_the_child(job, folder)
    while until is not None and (not notes.is_file() or _last(notes) < until):
        if os.waitpid(child, os.WNOHANG)[0]:
            raise SystemExit((folder / "told").read_text())
        time.sleep(0.01)
    if until is not None:
        os.kill(child, SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code != (0 if until is None else -SIGKILL):
        raise SystemExit((folder / "told").read_text())
    return [tuple(map(float, line.split())) for line in notes.read_text().splitlines()]


def _last(notes):
    lines = notes.read_bytes().splitlines(keepends=True)
    return int(lines[-2].split()[0]) if len(lines) > 1 else 0  # the last may be half a line


def _be_the_child(job, folder):
    code = 1
    try:
        os.chdir(folder)
        told = os.open("told", os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
        for stream in (1, 2):
            os.dup2(told, stream)
        _measure()
        launch(*job)
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def _measure():
    """Note after each step: number, CPU seconds, those of fixed work, KiB, descriptors."""
    step, notes = Program._one_step, os.open("steps", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    page = os.sysconf("SC_PAGE_SIZE") // 1024

    def measured(program, name, phase):
        start = time.process_time()
        step(program, name, phase)
        ended = time.process_time()
        fixed_work()
        spent = (ended - start, time.process_time() - ended)
        held = int(Path("/proc/self/statm").read_text().split()[1]) * page
        now = (program.total, *spent, held, len(os.listdir("/proc/self/fd")))
        os.write(notes, f"{' '.join(map(str, now))}\n".encode())

    Program._one_step = measured


def fixed_work():
    """The same work at any time, of the kind that a step is: many small operations and objects.

    What a CPU second is worth changes: other processes take the caches and the other hyperthread.
    """
    weights = [torch.full((16, 16), 0.1, requires_grad=True) for _ in range(8)]
    for number in range(4):
        state = torch.ones(4, 16)
        for weight in weights:
            state = torch.tanh(state @ weight)
        state.sum().backward()
        json.loads(json.dumps({f"{number}/{n}": list(range(n)) for n in range(40)}))


def grown(rows):
    """First fifth and last fifth of a life: memory, descriptors, CPU seconds of a step."""
    part = len(rows) // 5
    first, last = rows[:part], rows[-part:]
    return {
        "resident memory, MiB": [
            statistics.mean(r[3] for r in each) / 1024 for each in (first, last)
        ],
        "descriptors": [max(r[4] for r in each) for each in (first, last)],
        "CPU milliseconds of a step": [
            1e3 * statistics.median(r[1] for r in each) for each in (first, last)
        ],
        "the same, in units of a fixed piece of work": [
            statistics.median(r[1] / r[2] for r in each) for each in (first, last)
        ],
    }


def faults(record, steps):
    """What happened, and what is wrong: a step is missing, or a fault did not happen."""
    rows = [json.loads(line) for line in record.read_text().splitlines()]
    skipped = sum(row.get("learner/non_finite", 0) for row in rows)
    invalid = sum(row["reward/invalid_fraction"] * 8 for row in rows)
    told = f"{len(rows)} steps, {len(KILLS)} kills, {skipped:.0f} skipped, {invalid:.0f} invalid"
    there = [row["total"] for row in rows]
    wrong = [] if there == [*range(1, steps + 1)] else ["steps are missing"]
    wrong += [] if skipped == steps // PERIOD else [f"{skipped} steps skipped"]
    return told, wrong + ([] if invalid else ["no reward was invalid"])


def main(steps):
    """Run, print, judge."""
    torch.set_num_threads(1)
    run_here(planned([*WORDS, "phases.rl.steps=2"]))
    job = planned([*WORDS, f"phases.rl.steps={steps}"])
    with tempfile.TemporaryDirectory() as folder:
        rows = lives(job, Path(folder))
        told, wrong = faults(Path(folder) / "run" / "metrics.jsonl", steps)
    found = grown(rows)
    head = [told, "first fifth", "last fifth"]
    cells = [[name, f"{first:.4g}", f"{last:.4g}"] for name, (first, last) in found.items()]
    print(*(" | ".join(line) for line in (head, *cells)), sep="\n")
    if steps == STEPS:
        write("soak", head, cells)
    sys.exit("; ".join(wrong + judged(found, len(rows))) or 0)


def judged(found, steps):
    """What is not flat."""
    (before, after), (few, many), _, (fast, slow) = found.values()
    growth = (after - before) * 1024 / (0.8 * steps)
    shares = {"KiB a step": growth, "CPU time of a step": slow / fast}
    wrong = [f"{n}: {v:.3g}, at most {MOST[n]}" for n, v in shares.items() if not v <= MOST[n]]
    return wrong + ([f"descriptors: {few:.0f}, then {many:.0f}"] if many > few else [])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("steps", type=int, nargs="?", default=STEPS)
    main(parser.parse_args().steps)
