"""A recipe under faults: after each, the run goes on and must equal the uninterrupted one."""

import os
import random
import re
import shutil
import time
from collections import Counter
from signal import SIGCONT, SIGINT, SIGKILL, SIGSTOP, SIGTERM

from attempts import DONE, INTERRUPTED, NO_CHECKPOINT, after_seconds, attempt, die, left
from events import kind

from rlcomp.checkpoint.reader import list_checkpoints

# How often a random run is tried: one that came to its end before its last kill does not count.
TRIES = 20
STAGE = re.compile(r"before \w+: [\w.]+")


class Faulted:
    """A recipe and what became of it.

    Args:
        job: config and plan.
        folder: for its runs.
        new_episodes: a run that goes on after step ``k`` is to equal one that was stopped there on
            request, not one that never stopped.
    """

    def __init__(self, job, folder, new_episodes=False):
        self.job, self.folder, self.new_episodes = job, folder, new_episodes
        self.whole, self.number = {}, 0
        self.wrong, self.counts = [], Counter()
        first = attempt(job, folder / "whole")
        if first.code != DONE:
            raise AssertionError(f"the uninterrupted run ended with {first.code}: {first.told}")
        self.names, self.seconds = first.names, first.seconds
        self.whole[()] = left(folder / "whole" / "run")

    def points(self, most):
        """So many points, of as many kinds as there are: of each its first, middle or last time."""
        kinds = {}
        for index, name in enumerate(self.names):
            kinds.setdefault(kind(name), []).append(index)
        order = sorted(kinds.values(), key=lambda met: (len(met), met))
        chosen = random.Random(0).sample(order, min(most, len(order)))
        places = [met[(0, len(met) // 2, -1)[n % 3]] for n, met in enumerate(chosen)]
        return [(self.names[i], self.names[: i + 1].count(self.names[i])) for i in sorted(places)]

    def stages(self):
        """A point before each stage of each phase."""
        names = dict.fromkeys(n for n in self.names if STAGE.fullmatch(n))
        return [(name, 1 + n % self.names.count(name)) for n, name in enumerate(names)]

    def kill(self, point):
        """``kill -9`` at a point, then go on."""
        folder = self.new_folder()
        ended = attempt(self.job, folder, at=point, act=die)
        self.counts["killed"] += 1
        self.judge(f"killed {point}", folder, ended, -SIGKILL, point)

    def signal(self, point, number):
        """A signal that asks for an end, then go on."""
        folder = self.new_folder()
        ask = lambda _: os.kill(os.getpid(), number)  # noqa: E731
        ended = attempt(self.job, folder, at=point, act=ask)
        self.counts["asked"] += 1
        self.judge(f"signal {number} {point}", folder, ended, INTERRUPTED, point)

    def pause(self, draw):
        """SIGSTOP anywhere, and SIGCONT."""

        def stop(process):
            os.kill(process, SIGSTOP)
            time.sleep(0.1)
            os.kill(process, SIGCONT)

        folder = self.new_folder()
        beside = after_seconds(draw.uniform(0, self.seconds), stop)
        self.counts["paused"] += 1
        self.judge("paused", folder, attempt(self.job, folder, beside=beside), DONE)

    def kill_at_random(self, draw, kills=3):
        """``kill -9`` at random times, then go on."""
        for _ in range(TRIES):
            folder, left_to_do, stops, anew = self.new_folder(), kills, (), False
            while left_to_do:
                when = after_seconds(draw.uniform(0.05, 0.5) * self.seconds, _kill)
                ended = attempt(self.job, folder, beside=when, overwrite=anew)
                if ended.code == DONE:
                    break
                anew = ended.code == NO_CHECKPOINT
                if not anew:
                    left_to_do -= 1
                stops = self.stops(stops, folder)
            else:
                self.counts["random"] += 1
                self.judge("random kills", folder, ended, -SIGKILL, stops=stops)
                return
        self.wrong.append(f"no run was killed {kills} times before its end")

    def judge(self, what, folder, ended, code, point=None, stops=()):
        """The attempt ended as it should, the run goes on, and is equal in the end."""
        if ended.code != code or (point is not None and ended.names not in ([point[0]], [])):
            self.wrong.append(f"{what}: ended with {ended.code} at {ended.names}: {ended.told}")
            return
        stops = self.stops(stops, folder) if ended.code != DONE else stops
        if ended.code != DONE:
            ended = attempt(self.job, folder)
        if ended.code == NO_CHECKPOINT:
            self.counts["begun anew"] += 1
            ended = attempt(self.job, folder, overwrite=True)
        if ended.code != DONE:
            self.wrong.append(f"{what}: did not go on, {ended.code}: {ended.told}")
            return
        self.compare(what, folder, stops)

    def compare(self, what, folder, stops):
        """The run in ``folder`` has left what the uninterrupted one has."""
        mine, whole = left(folder / "run"), self.reference(stops if self.new_episodes else ())
        if other := [name for name in whole if mine[name] != whole[name]]:
            self.wrong.append(f"{what}: other {', '.join(other)}, in {folder}")
        else:
            self.counts["equal"] += 1
            shutil.rmtree(folder)

    def stops(self, before, folder):
        """After which steps the run went on so far, if it goes on now."""
        found = list_checkpoints(folder / "run" / "checkpoints")
        last = int(found[0].name.removeprefix("step-")) if found else 0
        return before if last in (0, *before) else (*before, last)

    def reference(self, stops):
        """The run that was stopped on request after these steps, and never killed."""
        if stops not in self.whole:
            folder, done = self.folder / f"stopped {stops}", 0
            first = next(n for n in self.names if STAGE.fullmatch(n))
            for step in stops:
                ask = lambda _: os.kill(os.getpid(), SIGTERM)  # noqa: E731
                ended = attempt(self.job, folder, at=(first, step - done), act=ask)
                assert ended.code == INTERRUPTED, ended.told
                done = step
            ended = attempt(self.job, folder)
            assert ended.code == DONE, ended.told
            self.whole[stops] = left(folder / "run")
        return self.whole[stops]

    def new_folder(self):
        """A folder for one run."""
        self.number += 1
        return self.folder / f"{self.number}"


def _kill(process):
    os.kill(process, SIGKILL)


def campaign(job, folder, *, points, runs, pauses=2, new_episodes=False):
    """A recipe: ``points`` named kills, ``runs`` of three random ones, signals at every stage."""
    under = Faulted(job, folder, new_episodes)
    for point in under.points(points):
        under.kill(point)
    for number in range(runs):
        under.kill_at_random(random.Random(number))
    for point in under.stages():
        for number in (SIGTERM, SIGINT):
            under.signal(point, number)
    for number in range(pauses):
        under.pause(random.Random(number))
    return under
