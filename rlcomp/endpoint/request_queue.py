"""Queue of the calls of agents, and their batched generation."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch

from rlcomp.endpoint.server import RefusedError
from rlcomp.endpoint.trace import Context, Trace
from rlcomp.engine.decoding import Decoding
from rlcomp.engine.session import TurnSample
from rlcomp.errors import NumericalError
from rlcomp.interfaces.policy import SupportsAgentCalls
from rlcomp.seed import named_seed

# Interval of checks of waiting threads, in seconds.
_POLL_SECONDS = 0.5
# Seconds to wait for agents that have not begun: they may import large libraries.
_START_SECONDS = 30.0


@dataclass
class QueuedRequest:
    """Queued call of an agent.

    Attributes:
        episode: number of the episode.
        trace: trace of the episode.
        context: the tokens to continue.
        limit: maximum number of tokens of an answer.
        stops: texts that end an answer.
        n: number of answers.
        seed: the client's seed; None without one.
        answers: the sampled answers.
        error: the error of a refused call.
        done: set when the call is answered or refused.
    """

    episode: int
    trace: Trace
    context: Context
    limit: int
    stops: tuple[str, ...]
    n: int
    seed: int | None
    answers: list[TurnSample] = field(default_factory=list)
    error: RefusedError | None = None
    done: threading.Event = field(default_factory=threading.Event)

    def refuse(self, reason: str) -> None:
        """Refuse the call, with a reason for the client."""
        self.error = RefusedError(reason, 410, "over")
        self.done.set()


class RequestQueue:
    """Queue that forms batches of the calls of agents.

    A batch begins when every unfinished episode has a waiting call. So batches do not depend on the
    order of calls. If an agent is late, the batch begins ``wait`` seconds after the last message of
    any agent; later batches do not wait for this agent until its next message. If a missing agent
    has not begun, the batch waits 30 seconds instead of ``wait``, unless ``wait`` is longer.

    Args:
        episodes: number of episodes.
        new_trace: factory of empty traces.
        wait: seconds to wait for late agents.
        max_calls: maximum number of calls of an episode.
    """

    def __init__(
        self, episodes: int, new_trace: Callable[[], Trace], *, wait: float, max_calls: int
    ) -> None:
        self.new_trace = new_trace
        self.wait, self.max_calls = wait, max_calls
        self.traces = [new_trace() for _ in range(episodes)]
        self.began = [False] * episodes
        self.open = {*range(episodes)}  # unfinished episodes
        self._late: set[int] = set()
        self._waiting: list[QueuedRequest] = []
        self._num_calls = [0] * episodes
        self._last_message = time.monotonic()
        self._stop_reason = ""
        self._changed = threading.Condition()

    def begin(self, episode: int) -> None:
        """Begin an episode; drop the trace of an earlier attempt.

        Raises:
            RefusedError: the episode is over.
        """
        with self._changed:
            self._check(episode)
            self._refuse(episode, "the agent has begun the episode again")
            self.traces[episode], self._num_calls[episode] = self.new_trace(), 0
            self.began[episode] = True
            self._note_message(episode)

    def end(self, episode: int, *, reward: float | None = None, failed: str = "") -> None:
        """Mark an episode as finished; later reports are ignored."""
        with self._changed:
            if episode in self.open:
                self.open.remove(episode)
                self.traces[episode].returned = reward
                self.traces[episode].failed = failed
                self._refuse(episode, "the episode is over")
                self._note_message(episode)

    def _refuse(self, episode: int, reason: str) -> None:
        """Refuse the waiting calls of an episode."""
        for call in self._waiting:
            if call.episode == episode:
                call.refuse(reason)
        self._waiting = [call for call in self._waiting if call.episode != episode]

    def add_reward(self, episode: int, reward: float) -> None:
        """Add a reward to the last call of an episode.

        Raises:
            RefusedError: the episode is over, or has no call yet.
        """
        with self._changed:
            self._check(episode)
            if not self.traces[episode].add_reward(reward):
                raise RefusedError("a reward needs an earlier call of the episode", 409, "no_call")

    def count_call(self, episode: int) -> Trace:
        """Count a call of an episode, and return its trace.

        Raises:
            RefusedError: the episode is over, or has made all of its calls.
        """
        with self._changed:
            self._check(episode)
            if self._num_calls[episode] >= self.max_calls:
                raise RefusedError(
                    f"the episode has made all {self.max_calls} calls: raise player.max_calls, "
                    "or end the agent earlier",
                    403,
                    "too_many_calls",
                )
            self._num_calls[episode] += 1
            return self.traces[episode]

    def wait_for_answers(self, call: QueuedRequest) -> list[TurnSample]:
        """Queue a call, and wait for its answers; raise RefusedError if the call is refused."""
        with self._changed:
            self._check(call.episode)
            self._waiting.append(call)
            self._note_message(call.episode)
        while not call.done.wait(_POLL_SECONDS):
            if self._stop_reason:
                call.refuse(self._stop_reason)
        if call.error is not None:
            raise call.error
        return call.answers

    def _check(self, episode: int) -> None:
        if self._stop_reason or episode not in self.open:
            raise RefusedError(self._stop_reason or "the episode is over", 410, "over")

    def _note_message(self, episode: int) -> None:
        self._late.discard(episode)
        self._last_message = time.monotonic()
        self._changed.notify_all()

    def next_batch(self) -> list[QueuedRequest]:
        """Return the calls of the next batch in a fixed order.

        The list is empty if all episodes are over or the queue is stopped.
        """
        with self._changed:
            while not self._ready():
                if self._stop_reason or not self.open:
                    return []
                self._changed.wait(self._seconds_until_late())
            batch, self._waiting = self._waiting, []
            return sorted(batch, key=lambda call: (call.episode, call.context.digest))

    def _ready(self) -> bool:
        """Return whether the next batch can begin, and note the late agents."""
        if not self._waiting:
            return False
        missing = self._missing()
        if missing and time.monotonic() >= self._late_time(missing):
            self._late |= missing
            missing = set()
        return not missing

    def _missing(self) -> set[int]:
        """Return the unfinished episodes without a waiting call, except the late ones."""
        return self.open - {call.episode for call in self._waiting} - self._late

    def _late_time(self, missing: set[int]) -> float:
        """Return the time at which the missing episodes are late."""
        all_began = all(self.began[episode] for episode in missing)
        return self._last_message + (self.wait if all_began else max(self.wait, _START_SECONDS))

    def _seconds_until_late(self) -> float:
        """Return the seconds until missing episodes are late, at most ``_POLL_SECONDS``."""
        if not self._waiting:
            return _POLL_SECONDS
        remaining = self._late_time(self._missing()) - time.monotonic()
        return min(_POLL_SECONDS, max(remaining, 0.01))

    def answer(self, call: QueuedRequest, answers: Sequence[TurnSample]) -> None:
        """Record the answers to a call, and wake its thread.

        A refused call, or a call of an earlier attempt at the episode, is not recorded.
        """
        with self._changed:
            self._note_message(call.episode)
            if call.error is None and self.traces[call.episode] is call.trace:
                call.trace.record(call.context, answers)
        call.answers = list(answers)
        call.done.set()

    def stop(self, reason: str) -> None:
        """Refuse all waiting and later calls."""
        with self._changed:
            self._stop_reason = self._stop_reason or reason
            for call in self._waiting:
                call.refuse(reason)
            self._waiting = []
            self._changed.notify_all()


class BatchedGeneration:
    """Batched sampling of answers to the calls of a queue, until all episodes are over.

    The draws of an answer depend on the episode's seed, the context of the call, the number of
    equal calls before it in the episode (or the client's seed), and the index of the answer. They
    do not depend on the time of calls or on other calls of the batch.

    Args:
        policy: the policy that samples the answers.
        decoding: the distribution to draw from. None: the policy's own.
        seeds: seed of each episode.
    """

    def __init__(
        self, policy: SupportsAgentCalls, decoding: Decoding | None, seeds: Sequence[int]
    ) -> None:
        self.policy, self.decoding, self.seeds = policy, decoding, seeds

    def run(self, queue: RequestQueue) -> None:
        """Answer calls until all episodes are over or the queue is stopped.

        Raises:
            NumericalError: the log-prob of a sampled token is not finite.
        """
        while batch := queue.next_batch():
            for stops in dict.fromkeys(call.stops for call in batch):
                self._answer(queue, [call for call in batch if call.stops == stops])

    def _answer(self, queue: RequestQueue, calls: Sequence[QueuedRequest]) -> None:
        """Answer calls with the same stop texts."""
        call_of_row = [call for call in calls for _ in range(call.n)]
        session = self.policy.session(
            [call.context.ids for call in call_of_row],
            decoding=self.decoding,
            generator=torch.Generator(),
            seeds=[seed for call in calls for seed in self._seeds(call)],
        )
        stops = [text.encode() for text in calls[0].stops]
        rows = range(len(call_of_row))
        turns = session.generate(rows, limits=[call.limit for call in call_of_row], texts=stops)
        session.close(rows)
        if not all(map(math.isfinite, (value for each in turns for value in each.log_probs))):
            raise NumericalError("the policy sampled a token whose log-prob is not finite")
        answers: dict[int, list[TurnSample]] = {}
        for call, each in zip(call_of_row, turns, strict=True):
            answers.setdefault(id(call), []).append(each)
        for call in calls:
            queue.answer(call, answers[id(call)])

    def _seeds(self, call: QueuedRequest) -> list[int]:
        """Count a call, and return a seed for each answer to it."""
        digest = call.context.digest
        repeats = call.trace.count_repeats(digest)
        origin = f"time {repeats}" if call.seed is None else f"seed {call.seed}"
        seed = self.seeds[call.episode]
        return [named_seed(seed, f"{digest} {origin} answer {choice}") for choice in range(call.n)]
