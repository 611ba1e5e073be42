"""Stale rollouts: an asynchronous sampler simulated in a synchronous run."""

from __future__ import annotations

from collections import deque
from typing import Any

from tensordict import TensorDict

from rlcomp.arguments import PositiveInt
from rlcomp.checkpoint.buffered_rollout import (
    BufferedRollout,
    ledger_state,
    load_ledger,
    load_rows,
    record_age,
)
from rlcomp.checkpoint.state_fields import field
from rlcomp.component import Component
from rlcomp.errors import CheckpointError
from rlcomp.metrics import Ledger, merge, recording


class DelayedCollector(Component):
    """Collector that delays rollouts by ``staleness`` steps, like an asynchronous sampler.

    The first call fills the queue: it rolls the same prompts out ``staleness`` more times.

    It serves bit-reproducible studies of off-policy losses. With ``cluster=local`` beside it the
    delay is real, and the numbers are the same. The queued rollouts are part of the checkpoint.
    Metrics of a rollout are logged in the step that consumes it.

    Reads and writes what the inner collector does; reads ``response_mask``, ``policy_version``
    ``[B, T]`` of its rollouts.

    Args:
        collector: makes the rollouts.
        staleness: steps (calls, inside a refill) a rollout waits.

    Source:
        Noukhovitch et al. 2024, "Asynchronous RLHF", arXiv:2410.18252, section 3.2.
    """

    runs = ("collector",)

    def __init__(self, *, collector: Component, staleness: PositiveInt = 1) -> None:
        super().__init__()
        self.collector = collector
        self.staleness = staleness
        self.queue: deque[BufferedRollout] = deque()

    @property
    def undelayed(self) -> Component:
        """The inner collector; on the workers of a cluster rollouts are delayed already."""
        return self.collector

    def begin_phase(self) -> None:
        """Drop the rollouts of the previous phase."""
        self.queue.clear()

    def forward(self, batch: TensorDict) -> TensorDict:
        """Roll out; return the rollout made ``staleness`` steps ago."""
        while len(self.queue) <= self.staleness:
            with recording() as ledger:
                self.queue.append(BufferedRollout(self.collector(batch.copy()), ledger))
        stale, newest = self.queue.popleft(), self.queue[-1].rows
        # A new TensorDict: later stages write into it.
        rows = stale.on(newest["response_mask"].device)
        merge(stale.ledger)
        record_age(rows, int(newest["policy_version"].max()))
        return rows

    def run_state(self) -> dict[str, Any]:
        """Return the queued rollouts with their recorded metrics."""
        return {
            "queue": [rollout.rows.to_dict() for rollout in self.queue],
            "recorded": [ledger_state(rollout.ledger) for rollout in self.queue],
        }

    def load_run_state(self, state: dict[str, Any]) -> None:
        """Restore the queued rollouts; a checkpoint of 0.2 has no metrics of them."""
        queue = [field({"queue": row}, "queue", dict) for row in field(state, "queue", list)]
        required = {*self.collector.writes, "response_mask", "policy_version"}
        for rollout in queue:
            if missing := sorted(required - rollout.keys()):
                raise CheckpointError(f"a rollout of 'queue' has no '{missing[0]}'")
        records = field(state, "recorded", list) if "recorded" in state else None
        ledgers = [Ledger() for _ in queue] if records is None else [*map(load_ledger, records)]
        if len(ledgers) != len(queue):
            raise CheckpointError(
                f"'recorded' is of {len(ledgers)} rollouts, 'queue' of {len(queue)}"
            )
        self.queue = deque(map(BufferedRollout, map(load_rows, queue), ledgers))
