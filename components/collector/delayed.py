"""Stale rollouts: simulates an asynchronous sampler in a synchronous run."""

from __future__ import annotations

from collections import deque
from typing import Any

from tensordict import TensorDict
from torch import Tensor

from rlcomp.arguments import PositiveInt
from rlcomp.component import Component
from rlcomp.errors import CheckpointError, FlowError
from rlcomp.io.fields import field
from rlcomp.metrics import record


class DelayedCollector(Component):
    """Delays rollouts by ``staleness`` steps: off-policy data as from an asynchronous sampler.

    The first call fills the queue: it rolls the same prompts out ``staleness`` times more.

    For bit-reproducible studies of off-policy losses. The queued rollouts are part of the
    checkpoint.

    Reads and writes what the collector inside does; reads ``response_mask``, ``policy_version``
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
        self.queue: deque[TensorDict] = deque()

    def begin_phase(self) -> None:
        """Drop the rollouts of the previous phase."""
        self.queue.clear()

    def forward(self, batch: TensorDict) -> TensorDict:
        """Roll out; return the rollout made ``staleness`` steps ago."""
        while len(self.queue) <= self.staleness:
            self.queue.append(self.collector(batch.copy()))
        stale, device = self.queue.popleft(), self.queue[-1]["response_mask"].device
        newest = self.queue[-1]["policy_version"].max()
        age = newest.to(stale["policy_version"].device) - stale["policy_version"]
        if bool((age < 0)[stale["response_mask"]].any()):
            raise FlowError(
                "a rollout that waited is of newer weights than the policy's: the policy lost its "
                "version when the run was continued; keep it in a buffer or in run_state"
            )
        record("rollout/staleness", age, where=stale["response_mask"])
        # A new TensorDict: later stages write into it. Out of a checkpoint it comes on the CPU.
        return stale.apply(lambda entry: entry.to(device))

    def run_state(self) -> dict[str, Any]:
        """The queued rollouts."""
        return {"queue": [rollout.to_dict() for rollout in self.queue]}

    def load_run_state(self, state: dict[str, Any]) -> None:
        """Restore the queued rollouts."""
        queue = [field({"queue": row}, "queue", dict) for row in field(state, "queue", list)]
        written = {*self.collector.writes, "response_mask", "policy_version"}
        for rollout in queue:
            if missing := sorted(written - rollout.keys()):
                raise CheckpointError(f"a rollout of 'queue' has no '{missing[0]}'")
        restored = [TensorDict(rollout).auto_batch_size_(1) for rollout in queue]
        if not all(map(_of_tensors, queue)) or not all(row.batch_dims for row in restored):
            raise CheckpointError("a rollout of 'queue' is no batch of tensors")
        self.queue = deque(restored)


def _of_tensors(value: object) -> bool:
    """Whether a value is a tensor, or a mapping of such."""
    return isinstance(value, Tensor) or (
        isinstance(value, dict) and all(map(_of_tensors, value.values()))
    )
