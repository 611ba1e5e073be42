"""Estimate the gain of overlap: ``python benchmarks/overlap.py RUN [--workers N]``.

Reads what the steps of a run took, and goes through the events of schedule ``fixed``: a step asks,
waits for the rollout that was asked for ``staleness`` steps before, and learns; a worker makes one
rollout after the other. Printed are seconds a step, the shares of time in which workers and learner
are busy, and the mean age of rollouts. The cores are taken to be free: where processes share them,
all take longer.

For schedule ``free`` it reads lengths as well: log-normal ones, cut at ``max_new_tokens``, with the
mean and the truncated share of the run (``--sigma`` where nothing was cut). What a rollout takes
beyond its tokens, by a line through the steps, is that of decode steps, whatever their rows.

``--tails`` goes through the events of both schedules, decode step by decode step, for responses
whose lengths are log-normal: under ``fixed`` a worker begins a rollout when all rows of the one
before have ended, under ``free`` a row that has ended gives its slot to the next.

``--check 40`` measures six settings instead, with a real queue, a real second process and sleeps in
the place of work, and prints prediction beside measurement. ``--free 8`` measures both schedules
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
from rlcomp.engine.decoding import Decoding as Temperature
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
# What the steps of a run say of their responses.
LENGTHS = ("rollout/tokens", "rollout/length", "rollout/truncated")
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


@dataclass(frozen=True)
class Sizes:
    """Sizes of a model of responses.

    Attributes:
        rows: of a step.
        step: seconds of a decode step, whatever its rows.
        row: seconds that each row adds to it.
        learner: seconds of everything else of a step of the run.
        workers: how many.
    """

    rows: int
    step: float
    row: float
    learner: float
    workers: int = 1


class Course(NamedTuple):
    """What a schedule comes to, decode step by decode step.

    Attributes:
        steps: seconds of each step of the run.
        workers: share of their time in which they decode.
        age: steps of the run from the last token of a row to its use, on average.
    """

    steps: list[float]
    workers: float
    age: float


class Decoding:
    """One worker: rows that are sampled together, a token of each in every step.

    Args:
        sizes: of the model.
        refills: whether a row that has ended gives its slot to the next; else all rows of a batch
            begin together, when all of those before have ended.
    """

    def __init__(self, sizes, *, refills):
        self.sizes, self.refills = sizes, refills
        self.seats = -(-sizes.rows // sizes.workers)
        self.now, self.waiting, self.seated, self.ended = 0.0, deque(), {}, {}
        self.busy = 0.0

    @property
    def idle(self):
        """Test if there is nothing to sample."""
        return not self.seated and not self.waiting

    def ask(self, name, length, now):
        """A row to sample, not before a time."""
        if self.idle:
            self.now = max(self.now, now)
        self.waiting.append((name, length))

    def go_on(self, until=math.inf):
        """Decode until a row ends, or the time is up."""
        if self.refills or not self.seated:
            while self.waiting and len(self.seated) < self.seats:
                name, length = self.waiting.popleft()
                self.seated[name] = length
        each = self.sizes.step + self.sizes.row * len(self.seated)
        steps = min(self.seated.values())
        if until < math.inf:
            steps = min(steps, math.ceil((until - self.now) / each))
        self.now += steps * each
        self.busy += steps * each
        left = {name: length - steps for name, length in self.seated.items()}
        self.ended |= {name: self.now for name, length in left.items() if not length}
        self.seated = {name: length for name, length in left.items() if length}


def by_rows(lengths, sizes, *, staleness, free):
    """The events of a schedule, decode step by decode step.

    Args:
        lengths: tokens of each row, in the order in which rows are asked for.
        sizes: of rows and steps.
        staleness: steps that rollouts are asked for ahead.
        free: whether decode slots are refilled, and a step consumes the rows that were done first;
            else it consumes its own.

    Returns:
        The course of the run.
    """
    workers = [Decoding(sizes, refills=free) for _ in range(sizes.workers)]
    asked, now, steps, ages, ends = 0, 0.0, [], [], []
    for number in range(len(lengths) // sizes.rows - staleness):
        began = now
        for worker in workers:
            while worker.now < now and not worker.idle:
                worker.go_on(now)
        while asked < (number + staleness + 1) * sizes.rows:  # the rule of admission
            workers[asked % sizes.workers].ask(asked, lengths[asked], now)
            asked += 1
        last = (number + 1) * sizes.rows
        wanted = range(asked) if free else range(last - sizes.rows, last)
        now = max(now, _when(workers, wanted, last if free else sizes.rows))
        ended = sorted(t for w in workers for name, t in w.ended.items() if name in wanted)
        mine = ended[last - sizes.rows : last] if free else ended
        ages += [number - sum(end <= t for end in ends) for t in mine]
        now += sizes.learner
        ends.append(now)
        steps.append(now - began)
    busy = sum(worker.busy for worker in workers) / sizes.workers
    return Course(steps, min(busy / now, 1.0), statistics.mean(ages))


def _when(workers, wanted, count):
    """When so many of some rows have ended."""
    while True:
        ended = sorted(t for w in workers for name, t in w.ended.items() if name in wanted)
        busy = [worker for worker in workers if not worker.idle]
        if len(ended) >= count and all(worker.now >= ended[count - 1] for worker in busy):
            return ended[count - 1]
        min(busy, key=lambda worker: worker.now).go_on()


def rows_of(run):
    """The metrics of each step with a rollout."""
    lines = (Path(run) / "metrics.jsonl").read_text().splitlines()
    return [row for row in map(json.loads, lines) if "time/rollout" in row]


def times_of(run):
    """Seconds of each rollout and of the rest of its step, where a step has one."""
    found = []
    for row in rows_of(run):
        here = row["time/rollout"]
        found.append((row.get("cluster/made", here), row["time/step"] - here))
    if not found:
        sys.exit(f"{run}: no step of metrics.jsonl has time/rollout: name a run with rollouts")
    return [made for made, _ in found], [rest for _, rest in found]


def spread_of(mean, cut, limit):
    """Return ``mu, sigma`` of log-normal lengths cut at a limit, and their mean.

    With ``z`` the standard score of the limit, ``mean / limit = pdf(z) cdf(z - sigma) / pdf(z -
    sigma) + cut``, which falls as sigma grows.
    """
    normal = statistics.NormalDist()
    z, low, high = normal.inv_cdf(1 - cut), 0.0, 8.0
    for _ in range(60):
        sigma = (low + high) / 2
        at = normal.pdf(z) * normal.cdf(z - sigma) / normal.pdf(z - sigma) + cut
        low, high = (sigma, high) if at > mean / limit else (low, sigma)
    return math.log(limit) - z * sigma, sigma


def shape_of(run, workers, sigma=None):
    """Sizes and log-normal lengths of a run's rollouts; None where its spread is unknown."""
    rows = rows_of(run)
    config = yaml.safe_load((Path(run) / "run.yaml").read_text())["config"]
    limit = config["max_new_tokens"]
    mean, cut = (
        statistics.mean(row[f"rollout/{of}"] for row in rows) for of in ("length", "truncated")
    )
    if sigma is not None:
        mu = math.log(mean) - sigma**2 / 2
    elif cut > 0 and mean > cut * limit and cut < 1:
        mu, sigma = spread_of(mean, cut, limit)
    else:
        return None
    count = round(statistics.mean(row["rollout/tokens"] / row["rollout/length"] for row in rows))
    draw = random.Random(1)
    wanted = count * (len(rows) + max(STALENESS))
    lengths = [
        max(1, min(limit, round(math.exp(mu + sigma * draw.gauss(0, 1))))) for _ in range(wanted)
    ]
    longest = statistics.mean(
        max(lengths[first : first + count]) for first in range(0, wanted, count)
    )
    made, rest = times_of(run)
    row, step = _line([each["rollout/tokens"] for each in rows], made)
    return Sizes(count, step / longest, row, statistics.mean(rest), workers), lengths


def _line(tokens, seconds):
    """Seconds a token and seconds beside them, by least squares, neither below 0."""
    mean = statistics.mean(tokens)
    if len(set(tokens)) == 1:
        return statistics.mean(seconds) / mean, 0.0
    slope, beside = statistics.linear_regression(tokens, seconds)
    if slope < 0:
        return 0.0, statistics.mean(seconds)
    return (slope, beside) if beside > 0 else (statistics.mean(seconds) / mean, 0.0)


def report(run, workers, sigma=None):
    """Print the table."""
    rollouts, rest = times_of(run)
    together = statistics.mean(rollouts) + statistics.mean(rest)
    print(f"{len(rest)} steps; without a cluster {together:.3g} s a step")
    head = ("schedule", "staleness", "seconds a step", "of that without", "workers busy")
    print("|", " | ".join([*head, "rest busy", "age"]), "|")
    print("|---|---|---|---|---|---|---|")

    def line(schedule, staleness, found):
        print(
            f"| {schedule} | {staleness} | {found.step:.3g} | {found.step / together:.2f} "
            f"| {found.workers:.0%} | {found.learner:.0%} | {found.age:.2f} |"
        )

    for staleness in STALENESS:
        line("fixed", staleness, fixed(rollouts, rest, staleness=staleness, workers=workers))
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
        line("free", staleness, Predicted(mean, course.workers, busy, course.age))


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


# A decode step that is measured, and what each row adds to it, seconds.
STEP, ROW = 0.004, 0.00002
FULL = Temperature()
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
            found = [
                statistics.mean(by_rows(lengths, sizes, staleness=staleness, free=free).steps[2:])
                for free in (False, True)
            ]
            print(
                f"| {sizes.rows} | {sizes.step:g} + {sizes.row:g} a row | {sizes.learner:g} "
                f"| {sizes.workers} | {staleness} | {found[0]:.3g} | {found[1]:.3g} "
                f"| {found[0] / found[1]:.2f} |"
            )


def tailed(mean, sigma, count, longest, seed=1):
    """Log-normal lengths, at least 1."""
    return [max(1, min(longest, round(each))) for each in drawn(mean, sigma, count, seed)]


class Tailed(LanguageModel):
    """A policy whose responses are as long as their prompt says, and take the time of an engine.

    A decode step sleeps ``STEP + ROW * rows`` seconds and draws nothing.
    """

    def generate(self, prompts, *, group_size, **_):
        """Generate all rows at once, each to its length."""
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
        """Seats that are left after so many tokens."""
        return TailedSeats()


class TailedSeats:
    """Seats whose rows end at the length that their context says."""

    def __init__(self):
        self.left, self.count = {}, 0

    def add(self, contexts):
        """Begin rows."""
        rows = range(self.count, self.count + len(contexts))
        self.count += len(contexts)
        self.left |= dict(zip(rows, map(length_of, contexts), strict=True))
        return list(rows)

    def advance(self, numbers):
        """Sample on, no further than the end of each row."""
        takes = {row: min(len(own), self.left[row]) for row, own in numbers.items()}
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
    """A decode step of so many rows."""
    time.sleep(STEP + ROW * rows)


def length_of(prompt):
    """Return the number in a prompt of :class:`Lengths`."""
    return prompt[0] + 128 * prompt[1]


class Lengths:
    """Prompts that are numbers: two tokens to the base of 128."""

    def check_policy(self, policy):
        """Any."""

    def encode(self, texts, columns):
        """Return the digits of each number."""
        return [[int(text) % 128, int(text) // 128] for text in texts]


def measure_free(steps, rows=32, mean=64, learner=0.1):
    """Print seconds a step of both schedules with a real worker beside predictions; the gain."""
    tokenizer = character_tokenizer(characters="".join(map(chr, range(256, 512))))
    model = tiny_model(tokenizer, context_length=1024)
    policy = Tailed(model=model, tokenizer=tokenizer, decoding=FULL)
    lengths = tailed(mean, 1.0, rows * (steps + 2), 8 * mean)
    found, sizes = {}, Sizes(rows, STEP, ROW, learner)
    for schedule, kind in (("fixed", RemoteStages), ("free", FreeStages)):
        collector = GroupCollector(
            policy=policy, group_size=1, max_new_tokens=8 * mean, prompt=Lengths()
        )
        cluster = LocalCluster(staleness=1, schedule=schedule, free=AsyncSettings(look_every=8))
        try:
            told = list(timed(kind(stages=[collector], cluster=cluster), lengths, rows, learner))
        finally:
            cluster.close()
        # The first step asks for its own prompts twice, and waits for a process.
        model = by_rows(lengths[:rows] + lengths, sizes, staleness=1, free=schedule == "free")
        found[schedule] = statistics.mean(told[2:])
        print(f"{schedule}: predicted {statistics.mean(model.steps[2:]):.3f} s a step, ", end="")
        print(f"measured {found[schedule]:.3f} s")
    gain = found["fixed"] / found["free"]
    print(json.dumps([{"row": "overlap, fixed over free", "value": gain, "unit": "x"}]))
    return gain


def timed(remote, lengths, rows, learner):
    """Seconds of each step."""
    for first in range(0, len(lengths), rows):
        start = time.perf_counter()
        some = encode_texts([str(n) for n in lengths[first : first + rows]])
        with torch.no_grad():
            remote(TensorDict({"prompt": some}, batch_size=[rows]))
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
