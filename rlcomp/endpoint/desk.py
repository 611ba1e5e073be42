"""The desk: where calls of agents wait for the next wave, and for its answers."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from rlcomp.endpoint.refused import RefusedError
from rlcomp.endpoint.trace import Context, Trace
from rlcomp.engine.session import Said

# Seconds after which whoever waits looks whether all is over.
_LOOK = 0.5
# Seconds that agents are waited for which have not begun: their clients are being imported.
_STARTING = 30.0


@dataclass
class Waiting:
    """A call that waits.

    Attributes:
        episode: number.
        trace: of the episode.
        context: to go on from.
        limit: tokens of an answer.
        stops: texts that end one.
        n: answers.
        seed: that the client gave; None: none.
        answers: once they are there.
        refused: why there are none.
    """

    episode: int
    trace: Trace
    context: Context
    limit: int
    stops: tuple[str, ...]
    n: int
    seed: int | None
    answers: list[Said] = field(default_factory=list)
    refused: RefusedError | None = None
    done: threading.Event = field(default_factory=threading.Event)

    def refuse(self, why: str) -> None:
        """Give no answer."""
        self.refused = RefusedError(why, 410, "over")
        self.done.set()


class Desk:
    """Episodes of agents, and the calls of theirs that wait.

    A wave begins when every episode that is not over waits, so that it is the same in every run
    whatever the order in which calls come; or ``wait`` seconds after anything was heard of any
    agent, and then those that are late are not waited for again until they call.

    Args:
        episodes: how many there are.
        trace: makes an empty one.
        wait: in seconds.
        max_calls: of an episode.
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
        """An agent begins; what an earlier try of the same left is forgotten."""
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
        """An agent is done; heard once, of what comes later nothing is."""
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
            RefusedError: it is over, or has no call yet.
        """
        with self._changed:
            self._check(episode)
            if not self.traces[episode].pay(reward):
                raise RefusedError("there is no call yet that earned a reward", 409, "no_call")

    def trace(self, episode: int) -> Trace:
        """The trace of an episode that may call once more, which is counted.

        Raises:
            RefusedError: it is over, or had all its calls.
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

    def ask(self, call: Waiting) -> list[Said]:
        """Wait for the answers to a call.

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
        """The calls to be answered together, in an order of their own; none: all is over."""
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
        begun = all(self.began[episode] for episode in missing)
        return self.wait if begun else max(self.wait, _STARTING)

    def _until_late(self) -> float:
        left = self._heard + self.wait - time.monotonic()
        return min(_LOOK, max(left, 0.01)) if self._waiting else _LOOK

    def answer(self, call: Waiting, answers: Sequence[Said]) -> None:
        """Record the answers to a call, and give them."""
        with self._changed:
            self._hear(call.episode)
            if call.refused is None and self.traces[call.episode] is call.trace:
                call.trace.record(call.context, answers)
        call.answers = list(answers)
        call.done.set()

    def stop(self, why: str) -> None:
        """Answer nothing any more."""
        with self._changed:
            self._over = self._over or why
            for call in self._waiting:
                call.refuse(why)
            self._waiting = []
            self._changed.notify_all()
