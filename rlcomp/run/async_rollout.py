"""Stages on workers under schedule ``free``: assignment and consumption of groups."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

from tensordict import TensorDict
from tensordict.nn import TensorDictModuleBase

from rlcomp.arguments import NonNegativeInt
from rlcomp.batch import cat
from rlcomp.checkpoint import state_fields
from rlcomp.checkpoint.buffered_rollout import BufferedRollout, load_buffered_rollout, record_age
from rlcomp.cluster.pool import Admission, Pool
from rlcomp.cluster.serialization import SerializedStages
from rlcomp.cluster.worker import version_of
from rlcomp.errors import CheckpointError, ConfigError, ProcessEnded, add_note
from rlcomp.interfaces.cluster import (
    Cluster,
    PromptRange,
    RefillingCollector,
    RolloutReply,
    RolloutRequest,
    WorkerLost,
)
from rlcomp.metrics import Ledger, merge, progress, record, step
from rlcomp.run.pending_requests import check_requests, load_request, request_state
from rlcomp.run.remote import RemoteStages, device_of
from rlcomp.seed import next_request

# Seconds between two polls for replies while the run has nothing else to do.
_PAUSE = 0.001


class FreeStages(RemoteStages):
    """A collector that runs on the workers of a cluster with ``schedule=free``.

    Replaces the collector. Each call publishes the weights, requests the groups of its prompts (the
    first call ``staleness`` times more for the same prompts), and returns as many groups as it has
    prompts, in the order of completion. :class:`rlcomp.cluster.pool.Admission` limits the number of
    unfinished groups. Workers load new weights between decode steps, so that tokens of a row may
    have several versions (``policy_version``). ``rollout_log_probs`` is under the weights that
    sampled each token.

    Reads and writes the keys of the collector; also writes ``too_old`` ``[B, T]``: response tokens
    more than ``cluster.free.max_age`` versions old.

    With ``staleness=0`` the tokens equal the tokens under schedule ``fixed``. Otherwise the groups
    of a step depend on timing, and two runs differ. The groups of a lost worker start again. A
    checkpoint holds the finished groups, and the prompts and seeds of the others; a resumed run
    starts these again.

    Records the metrics of :class:`rlcomp.run.remote.RemoteStages`. ``cluster/made`` is the seconds
    of the groups of the step, divided by the number of workers; ``rollout/staleness`` is the age of
    response tokens, ``rollout/too_old`` the share of them that is too old, and
    ``rollout/versions`` the number of versions of each row.

    Args:
        stages: one collector, or ``collector=delayed`` around it.
        cluster: the workers.

    Raises:
        ConfigError: the collector, or its policy, cannot refill decode slots.
    """

    def __init__(self, *, stages: list[TensorDictModuleBase], cluster: Cluster) -> None:
        super().__init__(stages=stages, cluster=cluster)
        max_age = cluster.free.max_age
        self.max_age = self.staleness if max_age is None else max_age
        self.pool = Pool[RolloutRequest, BufferedRollout](cluster.workers)
        self.admission = Admission(self.staleness)
        self._silent_since = [0.0] * cluster.workers  # start of each worker's silence
        self._weights: object = None

    def _check(self) -> None:
        stage, kind = self.stages[0], type(self.stages[0]).__name__
        if len(self.stages) > 1:
            raise ConfigError(
                "cluster.schedule is free: groups come back one by one, and only the collector "
                "runs on workers; set cluster.remote=null, or cluster.schedule=fixed"
            )
        if not getattr(stage, "refills", False) or not isinstance(stage, RefillingCollector):
            raise ConfigError(
                f"cluster.schedule is free, and {kind} does not refill decode slots: set "
                "cluster.schedule=fixed, or collector@rollout=group"
            )
        if not hasattr(stage.policy, "decode_slots"):
            raise ConfigError(
                f"cluster.schedule is free, and {type(stage.policy).__name__} has no decode_slots "
                "(rlcomp.interfaces.cluster.RefillingPolicy): set cluster.schedule=fixed"
            )
        SerializedStages(list(self.stages))

    def begin_phase(self) -> None:
        """Forget the groups of the previous phase."""
        self._drop_groups()

    def finish_phase(self) -> None:
        """End the workers, even if they are busy, since no stage will consume their groups."""
        self.cluster.close()
        self._payload = None
        self._drop_groups()

    def _drop_groups(self) -> None:
        self.pool = Pool(self.cluster.workers)
        self.admission = Admission(self.staleness)

    def settle(self) -> None:
        """Do nothing: a resumed run starts unfinished groups again."""

    def forward(self, batch: TensorDict) -> TensorDict:
        """Request groups; return the groups that finish first."""
        payload = self._begin(batch)
        start_time = time.perf_counter()
        self._weights = self.cluster.publish(payload.weights)
        record("cluster/weights_seconds", time.perf_counter() - start_time)
        prompts, size = len(batch), self._group_size
        first = self.admission.allowed == 0
        self.admission.step(prompts * size)
        for _ in range(self.staleness + 1 if first else 1):
            self._queue_groups(payload, batch)
        self._send_groups(size)
        start_time = time.perf_counter()
        self._collect(prompts)
        self._record(time.perf_counter() - start_time)
        return self._join_groups(self.pool.take(prompts), payload)

    @property
    def _group_size(self) -> int:
        stage = self.stages[0]
        assert isinstance(stage, RefillingCollector)
        return stage.group_size

    def _begin(self, batch: TensorDict) -> SerializedStages:
        """Start the workers if they are not running; return the stages as they were sent."""
        slots = self.cluster.free.seats or -(-len(batch) * self._group_size // self.cluster.workers)
        return self._start(replace(self.cluster.free, seats=slots))

    def _queue_groups(self, payload: SerializedStages, batch: TensorDict) -> None:
        """Queue the groups of a batch."""
        seeds = tuple(generator.initial_seed() for generator in payload.generators)
        for index in range(len(batch)):
            request = RolloutRequest(
                number=self.number,
                version=None,
                progress=progress(),
                step=step(),
                seeds=seeds,
                part=PromptRange(index, 1, len(batch)),
                batch=batch[index : index + 1].clone().cpu(),
            )
            self.pool.waiting.append(((self.number, index), request))
        self.number += 1
        for generator in payload.generators:
            next_request(generator)

    def _send_groups(self, size: int) -> None:
        """Send new weights to all workers, and new groups to those with the fewest."""
        for worker in range(self.cluster.workers):
            self.cluster.ask(worker, self._weights, None)  # no request: it loads the weights
        while self.pool.waiting and self.admission.admits(size):
            self.admission.start(size)
            worker, request = self.pool.assign()
            if len(self.pool.in_flight[worker]) == 1:
                self._silent_since[worker] = time.monotonic()
            self.cluster.ask(worker, self._weights, request)

    def _collect(self, count: int) -> None:
        """Wait until ``count`` groups are done."""
        self._receive_replies()
        while len(self.pool.done) < count:
            time.sleep(_PAUSE)
            self._receive_replies()

    def _receive_replies(self) -> None:
        """Receive every available reply."""
        for worker, in_flight in enumerate(self.pool.in_flight):
            while in_flight:
                reply = self._poll_worker(worker)
                if reply is None:
                    break
                assert reply.part is not None
                self._busy_seconds += reply.seconds
                self._silent_since[worker] = time.monotonic()
                rollout = BufferedRollout(reply.rows, reply.ledger, reply.seconds)
                self.pool.complete(worker, (reply.number, reply.part.first), rollout)

    def _poll_worker(self, worker: int) -> RolloutReply | None:
        try:
            return self.cluster.poll(worker, time.monotonic() - self._silent_since[worker])
        except WorkerLost as lost:
            self._restart_lost_worker(worker, lost)
            return None
        except Exception as error:
            add_note(error, f"on worker {worker} of the cluster")
            raise

    def _restart_lost_worker(self, worker: int, lost: WorkerLost) -> None:
        """Restart the worker, and its groups with the current weights."""
        in_flight = self.pool.in_flight[worker]
        if self._restarts >= self.cluster.restarts:
            raise ProcessEnded(
                self._lost_worker_message(next(iter(in_flight.values())), lost)
            ) from lost
        self._restarts += 1
        self.cluster.restart(worker)
        self._silent_since[worker] = time.monotonic()
        for request in in_flight.values():
            self.cluster.ask(worker, self._weights, request)

    def _join_groups(self, groups: list[BufferedRollout], payload: SerializedStages) -> TensorDict:
        """Concatenate groups to a batch, and mark tokens that are too old."""
        ledger = Ledger()
        for group in groups:
            ledger.merge(group.ledger)
        merge(ledger)
        seconds = [group.seconds for group in groups if group.seconds is not None]
        record("cluster/made", sum(seconds) / self.cluster.workers)
        rows = cat([group.rows for group in groups]).to(device_of(payload.weights))
        newest = version_of(list(self.stages))
        assert newest is not None
        record_age(rows, newest)
        return mark_too_old(rows, newest, self.max_age)

    def run_state(self) -> dict[str, Any]:
        """Return the finished groups, and the requests of the unfinished ones."""
        return {
            "done": [
                {"number": number, "place": place, **rollout.state()}
                for (number, place), rollout in self.pool.done.items()
            ],
            "asked": [request_state(request) for _, request in self.pool.unfinished()],
            "number": self.number,
            "allowed": self.admission.allowed,
        }

    def load_run_state(self, state: dict[str, Any]) -> None:
        """Restore the groups; queue the unfinished groups."""
        self._drop_groups()
        self.number = state_fields.field(state, "number", NonNegativeInt)
        self.admission.allowed = state_fields.field(state, "allowed", NonNegativeInt)
        for saved_group in state_fields.field(state, "done", list):
            name = tuple(
                state_fields.field(saved_group, key, NonNegativeInt) for key in ("number", "place")
            )
            rollout = {
                key: state_fields.field(saved_group, key, dict) for key in ("rows", "recorded")
            }
            self.pool.done[name[0], name[1]] = load_buffered_rollout(rollout)
        for request in map(load_request, state_fields.field(state, "asked", list)):
            self.pool.waiting.append(((request.number, request.part.first), request))
        # Unfinished groups have not been started in this process.
        waiting_rows = len(self.pool.waiting) * self._group_size
        if waiting_rows > self.admission.allowed:
            raise CheckpointError(
                f"'asked' holds {waiting_rows} rows, and 'allowed' is {self.admission.allowed}"
            )
        self.admission.started = self.admission.allowed - waiting_rows
        check_requests(
            [request for _, request in self.pool.waiting],
            done=self.pool.done,
            seeds=len(SerializedStages(list(self.stages)).generators),
            most=self.admission.allowed // self._group_size,
        )


def mark_too_old(rows: TensorDict, newest: int, max_age: int) -> TensorDict:
    """Add ``too_old`` to rows, and return them: response tokens over ``max_age`` versions old.

    Records ``rollout/too_old`` and ``rollout/versions``.

    Args:
        rows: hold ``policy_version`` and ``response_mask`` ``[B, T]``.
        newest: version of the policy that consumes them.
        max_age: largest age, in versions, of tokens that the loss uses.
    """
    mask, version = rows["response_mask"], rows["policy_version"]
    rows["too_old"] = mask & (newest - version > max_age)
    record("rollout/too_old", rows["too_old"], where=mask)
    changes = (version[:, 1:] != version[:, :-1]) & mask[:, 1:] & mask[:, :-1]
    record("rollout/versions", changes.sum(1) + 1.0)
    return rows
