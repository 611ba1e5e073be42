"""Clusters: worker processes that sample rollouts from given weights, prompts and seeds."""

from __future__ import annotations

import copy
from abc import abstractmethod
from dataclasses import asdict, dataclass
from typing import Any, Literal, Protocol, runtime_checkable

import torch
from tensordict import TensorDict
from torch import Tensor, nn

from rlcomp.arguments import Checked, NonNegativeInt, PositiveFloat, PositiveInt
from rlcomp.component import check_arguments
from rlcomp.engine.session import DecodeSlots
from rlcomp.errors import ConfigError
from rlcomp.interfaces.policy import Policy
from rlcomp.metrics import Ledger


class WorkerLost(Exception):
    """A worker has ended or no longer replies."""


@dataclass(frozen=True)
class PromptRange:
    """Range of the prompts of a batch that one request covers.

    Attributes:
        first: index of the first prompt in the batch.
        prompts: number of prompts in the range.
        total: number of prompts in the whole batch.
    """

    first: int
    prompts: int
    total: int


@dataclass(frozen=True)
class RolloutRequest:
    """Request for a rollout; under ``fixed`` it and the weights ``version`` determine the result.

    Attributes:
        number: index among the requests of a run, from 0.
        version: required version of the policy (``policy_version``); None for a policy without
            versions.
        progress: progress of the phase at the request.
        step: step of the run at the request.
        seeds: seed of every generator in the stages, in their order.
        part: range of the prompts in ``batch``.
        batch: input of the first stage, on the CPU.
    """

    number: int
    version: int | None
    progress: float
    step: int
    seeds: tuple[int, ...]
    part: PromptRange
    batch: TensorDict


@dataclass(frozen=True)
class RolloutReply:
    """Reply of a worker.

    Attributes:
        number: index of the request.
        version: version of the policy that answered.
        rows: output of the last stage, on the CPU.
        ledger: recorded metrics.
        seconds: wall-clock time of the stages; under ``schedule=free`` the working time since the
            worker's previous reply.
        part: the prompt of the rows under ``schedule=free``; None under ``fixed``.
    """

    number: int
    version: int | None
    rows: TensorDict
    ledger: Ledger
    seconds: float
    part: PromptRange | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Convert the rows to arrays, since pickling a TensorDict takes ten times as long."""
        return {**vars(self), "rows": _arrays(self.rows)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore the rows from arrays."""
        vars(self).update({**state, "rows": _tensors(state["rows"])})


def _arrays(rows: TensorDict) -> tuple[tuple[int, ...], dict[str, Any]]:
    """Return the shape, and the entries as arrays; bfloat16, which numpy lacks, stays a tensor."""

    def convert(entry: Any) -> Any:  # noqa: ANN401
        if isinstance(entry, TensorDict):
            return _arrays(entry)
        return entry if entry.dtype == torch.bfloat16 else entry.numpy()

    return tuple(rows.batch_size), {key: convert(entry) for key, entry in rows.items()}


def _tensors(arrays: tuple[tuple[int, ...], dict[str, Any]]) -> TensorDict:
    """Return the rows of :func:`_arrays`."""

    def convert(entry: Any) -> Any:  # noqa: ANN401
        if isinstance(entry, tuple):
            return _tensors(entry)
        return entry if isinstance(entry, Tensor) else torch.from_numpy(entry)

    shape, entries = arrays
    return TensorDict({key: convert(entry) for key, entry in entries.items()}, batch_size=shape)


@dataclass(frozen=True, kw_only=True)
class AsyncSettings:
    """Settings of rollouts under ``schedule=free``.

    Attributes:
        seats: decode slots of a worker: rows that it samples at a time. null: the rows of a batch
            divided by the number of workers.
        max_age: largest age, in policy versions, of response tokens in the loss. Rows with older
            tokens still count in the baseline. null: the cluster's ``staleness``.
        patience: time limit of a group in seconds, from the time when all of its rows sample.
            After that, unfinished rows end as ``truncated``. null: no limit.
        look_every: decode steps between two loads of new weights and refills of slots.
        recompute_cache: recompute keys and values with new weights.
    """

    seats: PositiveInt | None = None
    max_age: NonNegativeInt | None = None
    patience: PositiveFloat | None = None
    look_every: PositiveInt = 16
    recompute_cache: bool = False

    def __post_init__(self) -> None:
        check_arguments(type(self), (), asdict(self))


@runtime_checkable
class RefillingCollector(Protocol):
    """A collector whose rows a worker can sample in refilled decode slots."""

    policy: RefillingPolicy
    group_size: int
    max_new_tokens: int
    generator: torch.Generator

    def encode(self, batch: TensorDict) -> list[list[int]]:
        """Return the policy's input for each prompt."""
        ...

    def finish_rollout(self, batch: TensorDict, rollout: TensorDict) -> TensorDict:
        """Return the collector's output for prompts and rows of :meth:`Policy.generate`."""
        ...


class RefillingPolicy(Policy, Protocol):
    """A policy that samples in refilled decode slots."""

    def decode_slots(self, *, reread: bool = False) -> DecodeSlots:
        """Return decode slots; ``reread``: recompute keys and values when the weights change."""
        ...

    def check_prompts(self, prompts: list[list[int]], max_new_tokens: int) -> None:
        """Refuse prompts that the policy cannot answer within its context."""
        ...


class Cluster(metaclass=Checked):
    """Base class of clusters: starts workers, sends weights and requests, receives replies.

    Under ``fixed`` a worker answers its requests in order, each with the weights of the request,
    even if newer ones are published.

    Args:
        workers: number of processes.
        remote: names of the stages that run on the workers: consecutive in a phase, the first of
            them starts a new batch. null: the collector of each phase.
        schedule: ``fixed``: step ``k`` consumes the request of step ``k - staleness``. ``free``:
            workers refill the slots of finished rows and load new weights between decode steps, and
            a step consumes the groups that finish first.
        staleness: number of steps between the request and the use of a rollout; 0: each step waits
            for its own rollouts. null: the delay of ``collector=delayed``, or 1 with another
            collector. Under ``free`` the number of steps whose rollouts are requested ahead.
        timeout: seconds without a reply after which a worker with a request is restarted.
        restarts: maximum number of restarts in a run.
        free: settings under ``free``.

    Attributes:
        links: connections to the workers, in order; empty before the start and after the end.
    """

    ends_with_run = True  # a run closes it at its end (rlcomp.workers.pool.EndsWithRun)

    def __init__(
        self,
        *,
        workers: PositiveInt = 1,
        remote: list[str] | None = None,
        schedule: Literal["fixed", "free"] = "fixed",
        staleness: NonNegativeInt | None = None,
        timeout: PositiveFloat = 600.0,
        restarts: NonNegativeInt = 3,
        free: AsyncSettings | None = None,
    ) -> None:
        if remote is not None and not remote:
            raise ConfigError(
                "cluster.remote is empty: no stage would run on a worker; set cluster=none, or "
                "cluster.remote=[rollout]"
            )
        self.workers = workers
        self.remote = remote
        self.schedule = schedule
        self.staleness = staleness
        self.timeout = timeout
        self.restarts = restarts
        self.free = free or AsyncSettings()
        self.links: list[Any] = []

    def unstarted_copy(self) -> Cluster:
        """Return a cluster with the same settings and no workers."""
        cluster = copy.copy(self)
        cluster.links = []
        return cluster

    def prepare(self) -> None:
        """Begin to start the workers before the stages are built, since a start takes seconds."""

    @abstractmethod
    def start(
        self, stages: bytes, sizes: list[int], versions: int, free: AsyncSettings | None = None
    ) -> None:
        """Send the stages to every worker.

        Args:
            stages: pickled stages (:meth:`rlcomp.cluster.serialization.SerializedStages.data`).
            sizes: bytes of each storage of weights.
            versions: number of publications to keep, including the last one.
            free: settings of decoding, with the number of decode slots; None under ``fixed``.
        """

    @abstractmethod
    def publish(self, weights: list[Tensor]) -> object:
        """Copy the storages of the weights (uint8, one dimension); return a handle for requests."""

    @abstractmethod
    def ask(self, worker: int, weights: object, request: RolloutRequest | None) -> None:
        """Send a request to a worker without waiting for the reply.

        Args:
            worker: index of the worker.
            weights: result of :meth:`publish`.
            request: the request; None sends only weights, under ``free``.
        """

    @abstractmethod
    def receive(self, worker: int, timeout: float) -> RolloutReply:
        """Wait for the next reply of a worker, and return it.

        Raises:
            WorkerLost: the worker has ended, or has not replied for ``timeout`` seconds.
            Exception: a stage raised an exception.
        """

    def poll(self, worker: int, silent: float) -> RolloutReply | None:
        """Return the next reply of a worker, without waiting; None without one. Only for ``free``.

        Args:
            worker: index of the worker.
            silent: seconds since its last request or reply.

        Raises:
            WorkerLost: the worker has ended, or ``silent`` is above ``timeout``.
            Exception: a stage raised an exception.
        """
        raise NotImplementedError

    @abstractmethod
    def restart(self, worker: int) -> None:
        """End a worker and start it again without a request."""

    @abstractmethod
    def close(self) -> None:
        """End all workers at once, even if they are busy; :meth:`start` may follow."""


@runtime_checkable
class SimulatesDelay(Protocol):
    """A collector that delays rollouts as a cluster does."""

    staleness: int

    @property
    def undelayed(self) -> nn.Module:
        """Return the collector without the delay."""
        ...
