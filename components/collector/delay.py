"""Collector that simulates the stale rollouts of an asynchronous sampler."""

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

    It is for bit-reproducible studies of off-policy losses. With ``cluster=local`` the workers
    really are behind by as many steps, and the run has the same numbers. The first call fills the
    queue: it makes ``staleness`` additional rollouts of its prompts. A checkpoint holds the queue.
    The metrics of a rollout are logged in the step that uses it.

    Reads and writes the keys of the inner collector; reads ``response_mask`` and
    ``policy_version`` ``[B, T]`` of its rollouts. Records ``rollout/staleness``, the updates of the
    policy since each response token was sampled.

    Args:
        collector: the inner collector, which makes the rollouts.
        staleness: delay in steps; if a stage calls the collector several times per step (such as
            :class:`rlcomp.run.stages.Refill`), in calls.

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
        """The inner collector, for a cluster with a delay of its own."""
        return self.collector

    def begin_phase(self) -> None:
        """Drop the rollouts of the previous phase."""
        self.queue.clear()

    def forward(self, batch: TensorDict) -> TensorDict:
        """Make a rollout; return the rollout of ``staleness`` steps ago."""
        while len(self.queue) <= self.staleness:
            with recording() as ledger:
                self.queue.append(BufferedRollout(self.collector(batch.copy()), ledger))
        stale, newest = self.queue.popleft(), self.queue[-1].rows
        # A new TensorDict, because later stages write into it.
        rows = stale.rows_on(newest["response_mask"].device)
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
        """Restore the queued rollouts and their metrics; a checkpoint of 0.2 has no metrics."""
        queue = [field({"queue": rows}, "queue", dict) for rows in field(state, "queue", list)]
        required = {*self.collector.writes, "response_mask", "policy_version"}
        for rollout in queue:
            if missing := sorted(required - rollout.keys()):
                raise CheckpointError(f"a rollout of 'queue' has no '{missing[0]}'")
        records = field(state, "recorded", list) if "recorded" in state else None
        ledgers = [Ledger() for _ in queue] if records is None else [*map(load_ledger, records)]
        if len(ledgers) != len(queue):
            raise CheckpointError(
                f"'recorded' has {len(ledgers)} entries, but 'queue' has {len(queue)} rollouts"
            )
        self.queue = deque(map(BufferedRollout, map(load_rows, queue), ledgers))
