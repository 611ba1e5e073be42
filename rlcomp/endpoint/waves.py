"""Batched generation: calls of many agents are answered together."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from rlcomp.endpoint.desk import Desk, Waiting
from rlcomp.engine.decoding import Decoding
from rlcomp.engine.session import Said
from rlcomp.errors import NumericalError
from rlcomp.interfaces.policy import TakesCalls
from rlcomp.seed import named_seed


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
        answers: dict[int, list[Said]] = {}
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
