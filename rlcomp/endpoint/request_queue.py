"""Queue of requests, and their batched generation."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch

from rlcomp.endpoint.refused import RefusedError
from rlcomp.endpoint.trace import Context, Trace
from rlcomp.engine.decoding import Decoding
from rlcomp.engine.session import TurnSample
from rlcomp.errors import NumericalError
from rlcomp.interfaces.policy import TakesCalls
from rlcomp.seed import named_seed

# Seconds after which a waiting thread checks whether all episodes are over.
_LOOK = 0.5
# Seconds to wait for agents that have not begun: their clients are being imported.
_STARTING = 30.0


@dataclass
class Waiting:
    """A call that waits for its answers.

    Attributes:
        episode: its number.
        trace: of the episode.
        context: the tokens to continue.
        limit: the most tokens of an answer.
        stops: texts that end an answer.
        n: number of answers.
        seed: from the client; None: none.
        answers: set when they exist.
        refused: why there are no answers.
    """

    episode: int
    trace: Trace
    context: Context
    limit: int
    stops: tuple[str, ...]
    n: int
    seed: int | None
    answers: list[TurnSample] = field(default_factory=list)
    refused: RefusedError | None = None
    done: threading.Event = field(default_factory=threading.Event)

    def refuse(self, why: str) -> None:
        """Refuse the call."""
        self.refused = RefusedError(why, 410, "over")
        self.done.set()


class Desk:
    """Queue of the calls of agents, by episode.

    A batch begins when every unfinished episode has a waiting call, so that batches are the same in
    every run, whatever the order of calls. Otherwise it begins ``wait`` seconds after the last sign
    of any agent; agents that are late are then not waited for until they call again.

    Args:
        episodes: their number.
        trace: makes an empty one.
        wait: in seconds.
        max_calls: the most calls of an episode.
    """

    def __init__(
        self, episodes: int, trace: Callable[[], Trace], *, wait: float, max_calls: int
    ) -> None:
        self.make = trace
        self.wait, self.max_calls = wait, max_calls
        self.traces = [trace() for _ in range(episodes)]
        self.began = [False] * episodes
        self.open = {*range(episodes)}
        self._late: set[int] = set()
        self._waiting: list[Waiting] = []
        self._asked = [0] * episodes
        self._heard = time.monotonic()
        self._over = ""
        self._changed = threading.Condition()

    def begin(self, episode: int) -> None:
        """Begin an episode; drop the trace of an earlier try."""
        with self._changed:
            self._check(episode)
            for call in self._waiting:
                if call.episode == episode:
                    call.refuse("the agent began anew")
            self._waiting = [call for call in self._waiting if call.episode != episode]
            self.traces[episode], self._asked[episode] = self.make(), 0
            self.began[episode] = True
            self._hear(episode)

    def end(self, episode: int, *, reward: float | None = None, failed: str = "") -> None:
        """Mark an episode as finished; later reports are ignored."""
        with self._changed:
            if episode in self.open:
                self.open.remove(episode)
                self.traces[episode].returned = reward
                self.traces[episode].failed = failed
                for call in self._waiting:
                    if call.episode == episode:
                        call.refuse("the episode is over")
                self._waiting = [call for call in self._waiting if call.episode != episode]
                self._hear(episode)

    def pay(self, episode: int, reward: float) -> None:
        """Add a reward to the last call of an episode.

        Raises:
            RefusedError: the episode is over, or has no call yet.
        """
        with self._changed:
            self._check(episode)
            if not self.traces[episode].pay(reward):
                raise RefusedError("there is no call yet that earned a reward", 409, "no_call")

    def trace(self, episode: int) -> Trace:
        """Count one more call of an episode, and return its trace.

        Raises:
            RefusedError: the episode is over, or has no calls left.
        """
        with self._changed:
            self._check(episode)
            if self._asked[episode] >= self.max_calls:
                raise RefusedError(
                    f"the episode had its {self.max_calls} calls: set player.max_calls higher, or "
                    "let the agent end",
                    403,
                    "too_many_calls",
                )
            self._asked[episode] += 1
            return self.traces[episode]

    def ask(self, call: Waiting) -> list[TurnSample]:
        """Wait for the answers to a call, and return them.

        Raises:
            RefusedError: there will be none.
        """
        with self._changed:
            self._check(call.episode)
            self._waiting.append(call)
            self._hear(call.episode)
        while not call.done.wait(_LOOK):
            if self._over:
                call.refuse(self._over)
        if call.refused is not None:
            raise call.refused
        return call.answers

    def _check(self, episode: int) -> None:
        if self._over or episode not in self.open:
            raise RefusedError(self._over or "the episode is over", 410, "over")

    def _hear(self, episode: int) -> None:
        self._late.discard(episode)
        self._heard = time.monotonic()
        self._changed.notify_all()

    def next_wave(self) -> list[Waiting]:
        """Return the calls of the next batch, in a fixed order; none when all episodes are over."""
        with self._changed:
            while not self._ready():
                if self._over or not self.open:
                    return []
                self._changed.wait(self._until_late())
            wave, self._waiting = self._waiting, []
            return sorted(wave, key=lambda call: (call.episode, call.context.digest))

    def _ready(self) -> bool:
        if not self._waiting:
            return False
        missing = self.open - {call.episode for call in self._waiting} - self._late
        if missing and time.monotonic() >= self._heard + self._patience(missing):
            self._late |= missing
            missing = set()
        return not missing

    def _patience(self, missing: set[int]) -> float:
        all_began = all(self.began[episode] for episode in missing)
        return self.wait if all_began else max(self.wait, _STARTING)

    def _until_late(self) -> float:
        left = self._heard + self.wait - time.monotonic()
        return min(_LOOK, max(left, 0.01)) if self._waiting else _LOOK

    def answer(self, call: Waiting, answers: Sequence[TurnSample]) -> None:
        """Record the answers to a call, and wake the thread that waits for them."""
        with self._changed:
            self._hear(call.episode)
            if call.refused is None and self.traces[call.episode] is call.trace:
                call.trace.record(call.context, answers)
        call.answers = list(answers)
        call.done.set()

    def stop(self, why: str) -> None:
        """Refuse all waiting and later calls."""
        with self._changed:
            self._over = self._over or why
            for call in self._waiting:
                call.refuse(why)
            self._waiting = []
            self._changed.notify_all()


class Waves:
    """Generator of answers to a queue's calls, until all episodes are over.

    The draws of an answer depend on the seed, the episode, the content of the call, the number of
    equal calls before it in the episode, and the index of the token. They do not depend on the time
    of calls or on other calls of the batch. A seed from the client replaces the number of equal
    calls.

    Args:
        policy: samples the answers.
        decoding: the distribution to draw from; the policy's own if None.
        seeds: one for each episode.
    """

    def __init__(self, policy: TakesCalls, decoding: Decoding | None, seeds: Sequence[int]) -> None:
        self.policy, self.decoding, self.seeds = policy, decoding, seeds
        self.waves = 0

    def run(self, desk: Desk) -> None:
        """Answer calls until all episodes are over."""
        while wave := desk.next_wave():
            self.waves += 1
            for stops in dict.fromkeys(call.stops for call in wave):
                self._answer(desk, [call for call in wave if call.stops == stops])

    def _answer(self, desk: Desk, calls: Sequence[Waiting]) -> None:
        """Answer calls with the same stop texts."""
        owners = [call for call in calls for _ in range(call.n)]
        session = self.policy.session(
            [call.context.ids for call in owners],
            decoding=self.decoding,
            generator=torch.Generator(),
            seeds=[seed for call in calls for seed in self._drawn(call)],
        )
        stops = [text.encode() for text in calls[0].stops]
        rows = range(len(owners))
        turns = session.generate(rows, limits=[call.limit for call in owners], texts=stops)
        session.close(rows)
        if not all(map(math.isfinite, (value for each in turns for value in each.log_probs))):
            raise NumericalError("the policy sampled a token whose log-prob is not finite")
        answers: dict[int, list[TurnSample]] = {}
        for call, each in zip(owners, turns, strict=True):
            answers.setdefault(id(call), []).append(each)
        for call in calls:
            desk.answer(call, answers[id(call)])

    def _drawn(self, call: Waiting) -> list[int]:
        """Return a seed for each answer to a call."""
        digest = call.context.digest
        times = call.trace.times(digest)
        which = f"time {times}" if call.seed is None else f"seed {call.seed}"
        seed = self.seeds[call.episode]
        return [named_seed(seed, f"{digest} {which} answer {choice}") for choice in range(call.n)]
