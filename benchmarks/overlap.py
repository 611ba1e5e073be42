"""Estimate the gain of overlap: ``python benchmarks/overlap.py RUN [--workers N]``.

It reads the times of a run's steps, and simulates the events of schedule ``fixed``. A step requests
a rollout, waits for the rollout that was requested ``staleness`` steps before, and learns; a worker
makes one rollout after the other. It prints seconds a step, the shares of time in which workers and
learner are busy, and the mean age of rollouts. It assumes free cores: if processes share cores, all
take longer.

For schedule ``free`` it also simulates lengths of responses. They are log-normal, cut at
``max_new_tokens``, and have the mean and the truncated share of the run (``--sigma`` if the run cut
none). A line through the steps divides the seconds of a rollout: a part for each token, and a part
for each decode step, however many rows the step has.

``--tails`` simulates both schedules, decode step by decode step, for responses of log-normal
lengths. Under ``fixed`` a worker begins a rollout when all rows of the previous rollout have ended.
Under ``free`` a row that has ended gives its slot to the next row.

``--check 40`` measures six settings instead, with a real queue, a real second process and sleeps in
the place of work, and prints predictions beside measurements. ``--free 8`` measures both schedules
with a real worker, whose decode steps sleep, for log-normal lengths.
"""

import argparse
import json
import math
import random
import statistics
import sys
import time
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import torch
import yaml
from tensordict import TensorDict

from components.cluster.local import LocalCluster
from components.collector.group import GroupCollector
from rlcomp.batch import encode_texts
from rlcomp.component import Component
from rlcomp.engine.decoding import Decoding
from rlcomp.engine.draw import SampledResponses
from rlcomp.engine.session import TurnSample
from rlcomp.interfaces.cluster import AsyncSettings
from rlcomp.model.language_model import LanguageModel
from rlcomp.run.async_rollout import FreeStages
from rlcomp.run.remote import RemoteStages
from rlcomp.testing.tiny import tiny_model
from rlcomp.text.rows import rollout_rows
from rlcomp.text.tokenizer import character_tokenizer

STALENESS = (0, 1, 2, 4)
# Metrics of a step on the lengths of its responses.
LENGTHS = ("rollout/tokens", "rollout/length", "rollout/truncated")
# Seconds of transport of a request and its reply.
TRANSPORT = 0.005
# Settings of --check: mean seconds of a rollout and of the rest of a step, staleness, sigma.
CHECKED = ((0.12, 0.08, 0, 0.0), (0.1, 0.1, 1, 0.0), (0.15, 0.05, 1, 0.5), (0.1, 0.1, 2, 1.0))
CHECKED += ((0.05, 0.15, 1, 0.5), (0.1, 0.1, 4, 1.0))


@dataclass(frozen=True)
class Prediction:
    """Predicted times of a schedule.

    Attributes:
        step: seconds of a step.
        workers: share of time in which the workers make rollouts.
        learner: share of time in which the run does everything else of its steps.
        age: mean age of rollouts, in steps.
    """

    step: float
    workers: float
    learner: float
    age: float


def fixed(rollouts, rest, *, staleness, workers=1, splits=True, transport=TRANSPORT):
    """Simulate the events of schedule ``fixed``.

    Args:
        rollouts: seconds of each rollout, on one worker.
        rest: seconds of everything else, for each step.
        staleness: steps between the request and the use of a rollout.
        workers: number of workers.
        splits: True if each worker makes a part of every rollout, False if they take turns.
        transport: seconds of a request and its reply.
    """
    free_at, ends, now = [0.0] * workers, [], 0.0
    for number, busy in enumerate(rest):
        while len(ends) <= number + staleness:
            requested = len(ends)
            makers = range(workers) if splits else [requested % workers]
            # The last requests of a run are for steps that never come.
            seconds = rollouts[min(requested, len(rollouts) - 1)] / len(makers)
            for worker in makers:
                free_at[worker] = max(free_at[worker], now) + seconds
            ends.append(max(free_at[worker] for worker in makers))
        now = max(now, ends[number]) + transport + busy
    busy_seconds = sum(rollouts) / workers
    age = statistics.mean(min(number, staleness) for number in range(len(rest)))
    return Prediction(now / len(rest), min(busy_seconds / now, 1.0), sum(rest) / now, age)


@dataclass(frozen=True)
class Sizes:
    """Sizes of a simulated run.

    Attributes:
        rows: rows of a step of the run.
        step: seconds of a decode step without its rows.
        row: seconds that each row adds to a decode step.
        learner: seconds of everything else in a step of the run.
        workers: number of workers.
    """

    rows: int
    step: float
    row: float
    learner: float
    workers: int = 1


class Course(NamedTuple):
    """Times of a schedule that is simulated decode step by decode step.

    Attributes:
        steps: seconds of each step of the run.
        workers: share of time in which the workers decode.
        age: mean number of steps of the run from the last token of a row to the row's use.
    """

    steps: list[float]
    workers: float
    age: float


class DecodingWorker:
    """A simulated worker, which samples one token of each of its rows in every decode step.

    Args:
        sizes: sizes of the simulated run.
        refills: True if a row that has ended gives its slot to the next row; False if all rows of a
            batch begin together, when all rows before them have ended.

    Attributes:
        now: time of the worker, in seconds.
        busy: seconds of its decode steps so far.
        ended: end of each finished row, by the row's number.
    """

    def __init__(self, sizes, *, refills):
        self.sizes, self.refills = sizes, refills
        self.slots = -(-sizes.rows // sizes.workers)
        self.now, self.busy = 0.0, 0.0
        self.waiting, self.tokens_left, self.ended = deque(), {}, {}

    @property
    def idle(self):
        """Return whether there is nothing to sample."""
        return not self.tokens_left and not self.waiting

    def request(self, row, length, now):
        """Add a row to sample, which begins at ``now`` or later."""
        if self.idle:
            self.now = max(self.now, now)
        self.waiting.append((row, length))

    def decode(self, until=math.inf):
        """Decode until a row ends, or the time is up."""
        if self.refills or not self.tokens_left:
            while self.waiting and len(self.tokens_left) < self.slots:
                row, length = self.waiting.popleft()
                self.tokens_left[row] = length
        step_seconds = self.sizes.step + self.sizes.row * len(self.tokens_left)
        steps = min(self.tokens_left.values())
        if until < math.inf:
            steps = min(steps, math.ceil((until - self.now) / step_seconds))
        self.now += steps * step_seconds
        self.busy += steps * step_seconds
        left = {row: length - steps for row, length in self.tokens_left.items()}
        self.ended |= {row: self.now for row, length in left.items() if not length}
        self.tokens_left = {row: length for row, length in left.items() if length}


def by_rows(lengths, sizes, *, staleness, free):
    """Simulate the events of a schedule, decode step by decode step.

    Args:
        lengths: tokens of each row, in the order of the requests.
        sizes: sizes of the run.
        staleness: number of steps by which a rollout is requested ahead.
        free: True if decode slots are refilled, and a step consumes the rows that ended first;
            False if a step consumes the rows that it requested.

    Returns:
        The course of the run.
    """
    workers = [DecodingWorker(sizes, refills=free) for _ in range(sizes.workers)]
    requested, now, steps, ages, step_ends = 0, 0.0, [], [], []
    for number in range(len(lengths) // sizes.rows - staleness):
        step_start = now
        for worker in workers:
            while worker.now < now and not worker.idle:
                worker.decode(now)
        # A step may request rows of at most ``staleness`` steps ahead.
        while requested < (number + staleness + 1) * sizes.rows:
            workers[requested % sizes.workers].request(requested, lengths[requested], now)
            requested += 1
        last = (number + 1) * sizes.rows
        candidates = range(requested) if free else range(last - sizes.rows, last)
        now = max(now, _end_of_rows(workers, candidates, last if free else sizes.rows))
        row_ends = _row_ends(workers, candidates)
        consumed = row_ends[last - sizes.rows : last] if free else row_ends
        ages += [number - sum(end <= t for end in step_ends) for t in consumed]
        now += sizes.learner
        step_ends.append(now)
        steps.append(now - step_start)
    busy = sum(worker.busy for worker in workers) / sizes.workers
    return Course(steps, min(busy / now, 1.0), statistics.mean(ages))


def _row_ends(workers, rows):
    """Return the ends of those of the rows that have ended, in order."""
    return sorted(end for worker in workers for row, end in worker.ended.items() if row in rows)


def _end_of_rows(workers, rows, count):
    """Decode until ``count`` of the rows have ended; return the time of the last end."""
    while True:
        ends = _row_ends(workers, rows)
        busy = [worker for worker in workers if not worker.idle]
        if len(ends) >= count and all(worker.now >= ends[count - 1] for worker in busy):
            return ends[count - 1]
        min(busy, key=lambda worker: worker.now).decode()


def rows_of(run):
    """Return the metrics of each step with a rollout."""
    lines = (Path(run) / "metrics.jsonl").read_text().splitlines()
    return [row for row in map(json.loads, lines) if "time/rollout" in row]


def times_of(run):
    """Return the seconds of each rollout, and of the rest of its step."""
    rows = rows_of(run)
    if not rows:
        sys.exit(f"{run}: no step of metrics.jsonl has time/rollout: name a run with rollouts")
    rollouts = [row.get("cluster/made", row["time/rollout"]) for row in rows]
    return rollouts, [row["time/step"] - row["time/rollout"] for row in rows]


def spread_of(mean, cut, limit):
    """Return ``mu, sigma`` of log-normal lengths cut at a limit.

    ``mean`` is the mean of the cut lengths, ``cut`` the share of lengths above the limit. With
    ``z`` the standard score of the limit, ``mean / limit = pdf(z) cdf(z - sigma) / pdf(z - sigma) +
    cut``, which falls as sigma grows.
    """
    normal = statistics.NormalDist()
    z, low, high = normal.inv_cdf(1 - cut), 0.0, 8.0
    for _ in range(60):
        sigma = (low + high) / 2
        relative_mean = normal.pdf(z) * normal.cdf(z - sigma) / normal.pdf(z - sigma) + cut
        low, high = (sigma, high) if relative_mean > mean / limit else (low, sigma)
    return math.log(limit) - z * sigma, sigma


def shape_of(run, workers, sigma=None):
    """Return sizes and log-normal lengths of a run's rollouts; None if sigma is unknown.

    A run shows its sigma if it cut some responses, but not all.
    """
    rows = rows_of(run)
    config = yaml.safe_load((Path(run) / "run.yaml").read_text())["config"]
    limit = config["max_new_tokens"]
    mean, cut = (
        statistics.mean(row[f"rollout/{name}"] for row in rows) for name in ("length", "truncated")
    )
    if sigma is not None:
        mu = math.log(mean) - sigma**2 / 2
    elif cut > 0 and mean > cut * limit and cut < 1:
        mu, sigma = spread_of(mean, cut, limit)
    else:
        return None
    count = round(statistics.mean(row["rollout/tokens"] / row["rollout/length"] for row in rows))
    draw = random.Random(1)
    num_lengths = count * (len(rows) + max(STALENESS))
    lengths = [
        max(1, min(limit, round(math.exp(mu + sigma * draw.gauss(0, 1)))))
        for _ in range(num_lengths)
    ]
    longest = statistics.mean(
        max(lengths[first : first + count]) for first in range(0, num_lengths, count)
    )
    rollouts, rest = times_of(run)
    token_seconds, constant = _line([row["rollout/tokens"] for row in rows], rollouts)
    learner = statistics.mean(rest)
    return Sizes(count, constant / longest, token_seconds, learner, workers), lengths


def _line(tokens, seconds):
    """Return the slope (seconds a token) and constant of a least-squares line, neither below 0."""
    mean = statistics.mean(tokens)
    if len(set(tokens)) == 1:
        return statistics.mean(seconds) / mean, 0.0
    slope, constant = statistics.linear_regression(tokens, seconds)
    if slope < 0:
        return 0.0, statistics.mean(seconds)
    return (slope, constant) if constant > 0 else (statistics.mean(seconds) / mean, 0.0)


def report(run, workers, sigma=None):
    """Print the predictions for a run as a table."""
    rollouts, rest = times_of(run)
    alone = statistics.mean(rollouts) + statistics.mean(rest)  # seconds of a step, no cluster
    print(f"{len(rest)} steps; without a cluster {alone:.3g} s a step")
    head = ("schedule", "staleness", "seconds a step", "of that without", "workers busy")
    print("|", " | ".join([*head, "rest busy", "age"]), "|")
    print("|---|---|---|---|---|---|---|")

    def print_line(schedule, staleness, predicted):
        print(
            f"| {schedule} | {staleness} | {predicted.step:.3g} | {predicted.step / alone:.2f} "
            f"| {predicted.workers:.0%} | {predicted.learner:.0%} | {predicted.age:.2f} |"
        )

    for staleness in STALENESS:
        print_line("fixed", staleness, fixed(rollouts, rest, staleness=staleness, workers=workers))
    if any(name not in row for row in rows_of(run) for name in LENGTHS):
        print("schedule free: the steps have no lengths of responses (rollout/length)")
        return
    shape = shape_of(run, workers, sigma)
    if shape is None:
        print("schedule free: no response was cut, or all: give the spread of lengths, --sigma 1")
        return
    sizes, lengths = shape
    for staleness in STALENESS[1:]:
        course = by_rows(lengths, sizes, staleness=staleness, free=True)
        mean = statistics.mean(course.steps)
        busy = min(sizes.learner / mean, 1.0)
        print_line("free", staleness, Prediction(mean, course.workers, busy, course.age))


class SleepingRollout(Component):
    """A rollout that sleeps for the seconds in its batch."""

    fresh = True

    def forward(self, batch):
        """Sleep."""
        time.sleep(float(batch["seconds"][0]))
        return batch


def log_normals(mean, sigma, count, seed):
    """Draw log-normal numbers with a mean."""
    draw = random.Random(seed)
    return [mean * draw.lognormvariate(-(sigma**2) / 2, sigma) for _ in range(count)]


def measure(remote, rollouts, rest):
    """Return the seconds a step of a real queue."""
    start = time.perf_counter()
    for seconds, busy in zip(rollouts, rest, strict=True):
        remote(TensorDict({"seconds": torch.tensor([seconds])}, batch_size=[1]))
        time.sleep(busy)
    return (time.perf_counter() - start) / len(rest)


def check(steps):
    """Print predictions beside measurements; return the largest relative error."""
    worst = 0.0
    print("| rollout | rest | staleness | sigma | predicted | measured | error |")
    print("|---|---|---|---|---|---|---|")
    for rollout, learner, staleness, sigma in CHECKED:
        rollouts = log_normals(rollout, sigma, steps, 0)
        rest = log_normals(learner, sigma, steps, 1)
        cluster = LocalCluster(staleness=staleness)
        remote = RemoteStages(stages=[SleepingRollout()], cluster=cluster)
        first = TensorDict({"seconds": torch.tensor([0.0])}, batch_size=[1])
        try:
            remote(first)  # waits for the worker's process
            remote.begin_phase()
            seconds = measure(remote, rollouts, rest)
        finally:
            cluster.close()
        # The first step asks for its own prompts several times.
        predicted = fixed([rollouts[0]] * staleness + rollouts, rest, staleness=staleness).step
        error = seconds / predicted - 1
        worst = max(worst, abs(error))
        print(
            f"| {rollout} | {learner} | {staleness} | {sigma} | {predicted:.3f} | {seconds:.3f} "
            f"| {error:+.1%} |"
        )
    print(json.dumps([{"row": "overlap, largest error", "value": worst, "unit": "share"}]))
    return worst


# Seconds of a sleeping decode step, and seconds that each row adds to it.
STEP, ROW = 0.004, 0.00002
# Runs of --tails.
TAILS = (Sizes(512, 0.01, 0.0002, 30, 4), Sizes(512, 0.01, 0.0002, 90, 4))
TAILS += (Sizes(64, 0.001, 0.0001, 0.2), Sizes(64, 0.001, 0.00002, 0.1))


def tails(sigma, steps=8):
    """Print seconds a step of both schedules, for log-normal lengths."""
    print("| rows | decode step, s | learner, s | workers | staleness | fixed | free | gain |")
    print("|---|---|---|---|---|---|---|---|")
    for sizes in TAILS:
        for staleness in (1, 2):
            rows = sizes.rows * (steps + staleness + 2)
            mean = 2000 if sizes.rows > 64 else 128
            lengths = tailed(mean, sigma, rows, 8 * mean)
            fixed_seconds, free_seconds = (
                statistics.mean(by_rows(lengths, sizes, staleness=staleness, free=free).steps[2:])
                for free in (False, True)
            )
            print(
                f"| {sizes.rows} | {sizes.step:g} + {sizes.row:g} a row | {sizes.learner:g} "
                f"| {sizes.workers} | {staleness} | {fixed_seconds:.3g} | {free_seconds:.3g} "
                f"| {fixed_seconds / free_seconds:.2f} |"
            )


def tailed(mean, sigma, count, longest, seed=1):
    """Draw log-normal lengths, from 1 to ``longest``."""
    return [max(1, min(longest, round(n))) for n in log_normals(mean, sigma, count, seed)]


class SleepingPolicy(LanguageModel):
    """A policy whose responses are as long as their prompt says.

    A decode step sleeps ``STEP + ROW * rows`` seconds, as an engine would compute, and draws
    nothing.
    """

    def generate(self, prompts, *, group_size, **_):
        """Generate all rows together, each to its length."""
        lengths = [length_of(prompt) for prompt in prompts for _ in range(group_size)]
        for step in range(max(lengths)):
            sleep_step(sum(length > step for length in lengths))
        tokens = torch.full((len(lengths), max(lengths)), 2)
        ends = torch.tensor(lengths)
        sampled = SampledResponses(
            tokens, torch.zeros(tokens.shape), ends, torch.zeros(len(ends)).bool()
        )
        return rollout_rows(prompts, sampled, pad=0, version=self.version)

    def decode_slots(self, *, reread=False):
        """Return decode slots, as the policy's engine does."""
        return SleepingSlots()


class SleepingSlots:
    """Decode slots whose rows end at the length that their context says."""

    def __init__(self):
        self.left, self.count = {}, 0

    def add(self, contexts):
        """Begin a row for each context; return the rows' numbers."""
        rows = range(self.count, self.count + len(contexts))
        self.count += len(contexts)
        self.left |= dict(zip(rows, map(length_of, contexts), strict=True))
        return list(rows)

    def advance(self, numbers):
        """Sample a token for each random number that ``numbers`` has for a row, up to its end."""
        takes = {row: min(len(draws), self.left[row]) for row, draws in numbers.items()}
        for step in range(max(takes.values())):
            sleep_step(sum(count > step for count in takes.values()))
        for row, count in takes.items():
            self.left[row] -= count
        return {
            row: TurnSample([2] * count, [0.0] * count, self.left[row] > 0)
            for row, count in takes.items()
        }

    def renew(self):
        """No-op."""

    def close(self, rows):
        """No-op."""


def sleep_step(rows):
    """Sleep for a decode step of some rows."""
    time.sleep(STEP + ROW * rows)


def length_of(prompt):
    """Return the number in a prompt of :class:`Lengths`."""
    return prompt[0] + 128 * prompt[1]


class Lengths:
    """Format of prompts that are lengths: two tokens, the digits to the base of 128."""

    def check_policy(self, policy):
        """No-op: any policy can read the tokens."""

    def encode(self, texts, columns):
        """Return the digits of each number."""
        return [[int(text) % 128, int(text) // 128] for text in texts]


def measure_free(steps, rows=32, mean=64, learner=0.1):
    """Print the seconds a step of both schedules, predicted and with a real worker.

    Return the gain, seconds under ``fixed`` over seconds under ``free``.
    """
    tokenizer = character_tokenizer(characters="".join(map(chr, range(256, 512))))
    model = tiny_model(tokenizer, context_length=1024)
    policy = SleepingPolicy(model=model, tokenizer=tokenizer, decoding=Decoding())
    lengths = tailed(mean, 1.0, rows * (steps + 2), 8 * mean)
    measured, sizes = {}, Sizes(rows, STEP, ROW, learner)
    for schedule, kind in (("fixed", RemoteStages), ("free", FreeStages)):
        collector = GroupCollector(
            policy=policy, group_size=1, max_new_tokens=8 * mean, prompt=Lengths()
        )
        cluster = LocalCluster(staleness=1, schedule=schedule, free=AsyncSettings(look_every=8))
        try:
            remote = kind(stages=[collector], cluster=cluster)
            seconds = list(step_seconds(remote, lengths, rows, learner))
        finally:
            cluster.close()
        # The first step asks for its own prompts twice, and waits for a process.
        course = by_rows(lengths[:rows] + lengths, sizes, staleness=1, free=schedule == "free")
        measured[schedule] = statistics.mean(seconds[2:])
        print(f"{schedule}: predicted {statistics.mean(course.steps[2:]):.3f} s a step, ", end="")
        print(f"measured {measured[schedule]:.3f} s")
    gain = measured["fixed"] / measured["free"]
    print(json.dumps([{"row": "overlap, fixed over free", "value": gain, "unit": "x"}]))
    return gain


def step_seconds(remote, lengths, rows, learner):
    """Run a step for each batch of lengths; yield its seconds."""
    for first in range(0, len(lengths), rows):
        start = time.perf_counter()
        prompts = encode_texts([str(n) for n in lengths[first : first + rows]])
        with torch.no_grad():
            remote(TensorDict({"prompt": prompts}, batch_size=[rows]))
        time.sleep(learner)
        yield time.perf_counter() - start


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", nargs="?", help="a run's directory")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--sigma", type=float, help="of the lengths, where the run cut none")
    parser.add_argument("--check", type=int, default=0, metavar="STEPS")
    parser.add_argument("--tails", type=float, default=0, metavar="SIGMA")
    parser.add_argument("--free", type=int, default=0, metavar="STEPS")
    given = parser.parse_args()
    if given.check:
        check(given.check)
    elif given.tails:
        tails(given.tails)
    elif given.free:
        measure_free(given.free)
    elif given.run:
        report(given.run, given.workers, given.sigma)
    else:
        parser.error("name a run, or --check 40, --tails 1 or --free 8")
