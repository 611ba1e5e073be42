"""Stages on workers: requests, waiting rollouts, and repeated requests."""

from __future__ import annotations

import itertools
import time
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from tensordict import TensorDict
from tensordict.nn import TensorDictModuleBase
from torch import Tensor

from rlcomp.arguments import NonNegativeInt
from rlcomp.batch import cat
from rlcomp.checkpoint import state_fields
from rlcomp.checkpoint.buffered_rollout import BufferedRollout, load_buffered_rollout, record_age
from rlcomp.cluster.serialization import SerializedStages
from rlcomp.cluster.worker import version_of
from rlcomp.errors import ConfigError, FlowError, ProcessEnded, add_note
from rlcomp.interfaces.cluster import (
    AsyncSettings,
    Cluster,
    PromptRange,
    RolloutReply,
    RolloutRequest,
    SimulatesDelay,
    WorkerLost,
)
from rlcomp.metrics import Ledger, merge, progress, record, record_total, step
from rlcomp.run.stages import Sequence
from rlcomp.seed import next_request


@dataclass(eq=False)
class InFlightRollout:
    """A rollout that was requested from workers.

    Attributes:
        weights: handle of the weights that the policy answers with.
        requests: request to each worker, by its index.
        replies: received replies, by worker.
    """

    weights: object
    requests: dict[int, RolloutRequest]
    replies: dict[int, RolloutReply] = field(default_factory=dict)

    def join_replies(self) -> BufferedRollout:
        """Return the rollout from all replies: rows and records in the order of the prompts."""
        replies = [self.replies[worker] for worker in self.requests]
        ledger = Ledger()
        for reply in replies:
            ledger.merge(reply.ledger)
        rows = replies[0].rows if len(replies) == 1 else cat([reply.rows for reply in replies])
        return BufferedRollout(rows, ledger, max(reply.seconds for reply in replies))


class RemoteStages(Sequence):
    """Stages that run on the workers of a cluster.

    Replaces these stages. Each call requests the rollout of its batch and returns the rollout that
    was requested ``staleness`` calls ago, so that every row has exactly this age at any timing. The
    first call requests the same prompts ``staleness`` times more. The weights of a request are
    those at its call. With ``staleness=0`` the numbers equal those of the stages in this process.
    With more staleness they equal the numbers of ``collector@rollout=delayed`` in this process, to
    the bit if the first stage is this collector: its inner collector draws by the seed of its own
    path.

    The prompts of a batch are divided among all workers if the stage is one collector whose rows do
    not depend on the division (``splits``). Otherwise whole batches go to the workers in turn.

    A lost worker is restarted and gets its requests again. Waiting rollouts are part of the
    checkpoint, which first waits for those under way. Metrics recorded on a worker are logged in
    the step that consumes the rollout.

    Records ``cluster/waited`` and ``cluster/made``, the seconds of this call's wait and of the
    rollout; ``cluster/idle_fraction`` of the workers' time since the last call;
    ``cluster/weights_seconds``; ``cluster/restarts``; and ``rollout/staleness`` if rows wait.

    Args:
        stages: run on the workers, in this order. The first one may be
            ``collector@rollout=delayed``: its inner collector runs there, and its ``staleness``
            counts if the cluster's is None. Without such a collector it is 1 then.
        cluster: the workers; the first call sends them the stages.

    Attributes:
        path: config path of the first stage, for messages and timings.
        directory: folder for requests that end their workers, or None.

    Raises:
        ConfigError: a stage has a state that a worker would change outside of checkpoints, or
            cannot be sent; or there are more workers than requests under way.
    """

    # A run may continue without the saved state of these stages (rlcomp.checkpoint.state), so that
    # a run with a cluster may continue one without, and the other way round.
    begins_anew = True

    def __init__(self, *, stages: list[TensorDictModuleBase], cluster: Cluster) -> None:
        delay = 1
        if isinstance(first := stages[0], SimulatesDelay):
            stages, delay = [first.undelayed, *stages[1:]], first.staleness
        super().__init__(stages=stages)
        self.cluster = cluster
        self.staleness: NonNegativeInt = delay if cluster.staleness is None else cluster.staleness
        self.path = type(first).__name__
        self.directory: Path | None = None
        # Rollouts that later calls return, in order.
        self.queue: deque[InFlightRollout | BufferedRollout] = deque()
        self.number = 0  # of the next request
        self._payload: SerializedStages | None = None
        self._in_flight: list[InFlightRollout] = []
        self._restarts, self._recorded_restarts = 0, 0
        self._busy_seconds, self._recorded_at = 0.0, time.perf_counter()
        self._splits = len(stages) == 1 and bool(getattr(stages[0], "splits", False))
        self._check()

    def _check(self) -> None:
        SerializedStages(list(self.stages))
        kind = type(self.stages[0]).__name__
        busy = self.staleness + 1
        if not self._splits and self.cluster.workers > busy:
            raise ConfigError(
                f"cluster.workers is {self.cluster.workers}: batches of {kind} are not dealt out, "
                f"and with staleness {self.staleness} only {busy} of them are under way at a time; "
                f"set cluster.workers={busy}"
            )

    def begin_phase(self) -> None:
        """Drop the rollouts of the previous phase after waiting for those under way."""
        self.settle()
        self.queue.clear()

    def finish_phase(self) -> None:
        """Wait for pending rollouts, and end the workers, since another phase may need none."""
        self.settle()
        self.cluster.close()
        self._payload = None

    def forward(self, batch: TensorDict) -> TensorDict:
        """Request a rollout; return the one that is due."""
        payload = self._start()
        start_time = time.perf_counter()
        weights = self.cluster.publish(payload.weights)
        record("cluster/weights_seconds", time.perf_counter() - start_time)
        while len(self.queue) <= self.staleness:
            self.queue.append(self._request(payload, weights, batch))
        start_time = time.perf_counter()
        rollout = self._wait_for(self.queue.popleft())
        self._record(time.perf_counter() - start_time)
        if rollout.seconds is not None:
            record("cluster/made", rollout.seconds)
        merge(rollout.ledger)
        # A new TensorDict, since later stages write into it.
        rows = rollout.rows_on(device_of(payload.weights))
        newest = version_of(list(self.stages))
        if self.staleness and newest is not None and "policy_version" in rows.keys():
            record_age(rows, newest)
        return rows

    def settle(self) -> None:
        """Wait for pending rollouts, since a checkpoint holds their results."""
        self.queue = deque(self._wait_for(each) for each in self.queue)

    def run_state(self) -> dict[str, Any]:
        """Return the waiting rollouts, and the number of requests."""
        waiting = [each.state() for each in self.queue if isinstance(each, BufferedRollout)]
        return {"queue": waiting, "number": self.number}

    def load_run_state(self, state: dict[str, Any]) -> None:
        """Restore the rollouts."""
        self.queue = deque(map(load_buffered_rollout, state_fields.field(state, "queue", list)))
        self.number = state_fields.field(state, "number", NonNegativeInt)

    def _start(self, free: AsyncSettings | None = None) -> SerializedStages:
        """Start the workers at the first call, when constant parts have their final values."""
        if self._payload is None:
            self._payload = SerializedStages(list(self.stages))
            sizes = [len(each) for each in self._payload.weights]
            # At most staleness + 1 requests are under way, each with weights of its own; one spare.
            self.cluster.start(self._payload.data(), sizes, self.staleness + 2, free)
            self._recorded_at = time.perf_counter()
        return self._payload

    def _request(
        self, payload: SerializedStages, weights: object, batch: TensorDict
    ) -> InFlightRollout:
        seeds = tuple(generator.initial_seed() for generator in payload.generators)
        requests = {}
        for worker, part in self._parts(batch).items():
            requests[worker] = RolloutRequest(
                number=self.number,
                version=version_of(list(self.stages)),
                progress=progress(),
                step=step(),
                seeds=seeds,
                part=part,
                batch=_prompts_of_part(batch, part).cpu(),
            )
            self.cluster.ask(worker, weights, requests[worker])
        self.number += 1
        for generator in payload.generators:
            next_request(generator)
        self._in_flight.append(InFlightRollout(weights, requests))
        return self._in_flight[-1]

    def _parts(self, batch: TensorDict) -> dict[int, PromptRange]:
        """Assign the prompts to workers, by index; an undivided batch goes to the next in turn."""
        count = batch.shape[0] if batch.batch_dims else 1
        workers = self.cluster.workers
        if not self._splits or workers == 1:
            return {self.number % workers: PromptRange(0, count, count)}
        bounds = [count * worker // workers for worker in range(workers + 1)]
        ends = itertools.pairwise(bounds)
        return {n: PromptRange(a, b - a, count) for n, (a, b) in enumerate(ends) if a < b}

    def _wait_for(self, rollout: InFlightRollout | BufferedRollout) -> BufferedRollout:
        if isinstance(rollout, BufferedRollout):
            return rollout
        for worker in rollout.requests:
            while worker not in rollout.replies:
                self._receive(worker)
        self._in_flight.remove(rollout)
        return rollout.join_replies()

    def _receive(self, worker: int) -> None:
        """Store the next reply of a worker; restart the worker if it is lost."""
        try:
            reply = self.cluster.receive(worker, self.cluster.timeout)
        except WorkerLost as lost:
            return self._restart_worker(worker, lost)
        except Exception as error:
            add_note(error, f"on worker {worker} of the cluster")
            raise
        rollout = next(
            each
            for each in self._unanswered(worker)
            if each.requests[worker].number == reply.number
        )
        if reply.version != rollout.requests[worker].version:
            raise FlowError(
                f"worker {worker} answered with weights of version {reply.version}, and was asked "
                f"for {rollout.requests[worker].version}"
            )
        rollout.replies[worker] = reply
        self._busy_seconds += reply.seconds
        return None

    def _unanswered(self, worker: int) -> list[InFlightRollout]:
        """Return the rollouts for which a worker has not replied yet, in order."""
        return [
            each for each in self._in_flight if worker in each.requests.keys() - each.replies.keys()
        ]

    def _restart_worker(self, worker: int, lost: WorkerLost) -> None:
        waiting = self._unanswered(worker)
        if self._restarts >= self.cluster.restarts:
            raise ProcessEnded(
                self._lost_worker_message(waiting[0].requests[worker], lost)
            ) from lost
        self._restarts += 1
        self.cluster.restart(worker)
        for rollout in waiting:
            self.cluster.ask(worker, rollout.weights, rollout.requests[worker])

    def _lost_worker_message(self, request: RolloutRequest, lost: WorkerLost) -> str:
        note = ""
        if self.directory is not None:
            file = self.directory / f"request-{request.number:08d}.safetensors"
            flat = request.batch.flatten_keys(".")
            facts = {name: str(getattr(request, name)) for name in ("version", "seeds", "part")}
            save_file({k: v.contiguous() for k, v in flat.items()}, file, metadata=facts)
            note = f", which is kept in {file}"
        return (
            f"{lost}, over request {request.number}{note}; {self._restarts} workers of this run "
            f"were started again before, and cluster.restarts is {self.cluster.restarts}"
        )

    def _record(self, wait_seconds: float) -> None:
        now = time.perf_counter()
        share = self._busy_seconds / max((now - self._recorded_at) * self.cluster.workers, 1e-9)
        record("cluster/waited", wait_seconds)
        record("cluster/idle_fraction", max(0.0, 1.0 - share))
        record_total("cluster/restarts", self._restarts - self._recorded_restarts)
        self._busy_seconds, self._recorded_at, self._recorded_restarts = 0.0, now, self._restarts


def _prompts_of_part(batch: TensorDict, part: PromptRange) -> TensorDict:
    whole = part.prompts == part.total
    return batch if whole else batch[part.first : part.first + part.prompts].clone()


def device_of(weights: list[Tensor]) -> torch.device:
    """Return the device of the weights, for the rows; the CPU without weights."""
    return weights[0].device if weights else torch.device("cpu")
