"""Clusters: worker processes that make rollouts, each a function of weights, prompts and seeds."""

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
from rlcomp.engine.seats import Seats
from rlcomp.errors import ConfigError
from rlcomp.interfaces.policy import Policy
from rlcomp.metrics import Ledger


class WorkerLost(Exception):
    """A worker is gone, or says nothing any more."""


@dataclass(frozen=True)
class Part:
    """Which prompts of a batch a request holds.

    Attributes:
        first: number of the first one.
        prompts: how many.
        of: how many the batch has.
    """

    first: int
    prompts: int
    of: int


@dataclass(frozen=True)
class Request:
    """A rollout that a worker is asked for: with the weights of ``version`` it is the same always.

    Attributes:
        number: of the requests of a run, from 0.
        version: of the policy that is to answer (``policy_version``); None: it has none.
        progress: of the phase, when it was asked.
        step: of the run, when it was asked.
        seeds: of every generator that travels with the stages, in their order.
        part: which prompts ``batch`` holds.
        batch: what the first stage reads, on the CPU.
    """

    number: int
    version: int | None
    progress: float
    step: int
    seeds: tuple[int, ...]
    part: Part
    batch: TensorDict


@dataclass(frozen=True)
class Reply:
    """What a worker made.

    Attributes:
        number: of the request.
        version: of the policy that answered.
        rows: what the last stage returned, on the CPU.
        ledger: what was recorded.
        seconds: on the clock; under ``schedule=free`` those of work since the reply before.
        part: under ``schedule=free`` which prompt of the batch it is; else None.
    """

    number: int
    version: int | None
    rows: TensorDict
    ledger: Ledger
    seconds: float
    part: Part | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Rows travel as arrays: to pickle a TensorDict takes ten times as long."""
        return {**vars(self), "rows": _arrays(self.rows)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Make a TensorDict of them again."""
        vars(self).update({**state, "rows": _tensors(state["rows"])})


def _arrays(rows: TensorDict) -> tuple[tuple[int, ...], dict[str, Any]]:
    """Shape and entries; a tensor of a dtype that numpy has not stays one."""

    def one(entry: Any) -> Any:  # noqa: ANN401
        if isinstance(entry, TensorDict):
            return _arrays(entry)
        return entry if entry.dtype == torch.bfloat16 else entry.numpy()

    return tuple(rows.batch_size), {key: one(entry) for key, entry in rows.items()}


def _tensors(told: tuple[tuple[int, ...], dict[str, Any]]) -> TensorDict:
    """The rows of :func:`_arrays`."""

    def one(entry: Any) -> Any:  # noqa: ANN401
        if isinstance(entry, tuple):
            return _tensors(entry)
        return entry if isinstance(entry, Tensor) else torch.from_numpy(entry)

    shape, entries = told
    return TensorDict({key: one(entry) for key, entry in entries.items()}, batch_size=shape)


@dataclass(frozen=True, kw_only=True)
class Free:
    """How rollouts are made under ``schedule=free``.

    Attributes:
        seats: rows that a worker samples at a time; null: those of a batch, dealt out.
        max_age: response tokens of weights that are more versions old when they are consumed have
            no weight in a loss of tokens; their rows count in the baseline. null: the cluster's
            staleness.
        patience: seconds that a group may take from when all of its rows sample; then those that
            have not ended are closed as they are, ``truncated``. null: any time.
        look_every: decode steps after which a worker looks for new weights and refills seats.
        recompute_cache: whether new weights read again what old ones have read; else the keys and
            values of old ones stay.
    """

    seats: PositiveInt | None = None
    max_age: NonNegativeInt | None = None
    patience: PositiveFloat | None = None
    look_every: PositiveInt = 16
    recompute_cache: bool = False

    def __post_init__(self) -> None:
        check_arguments(type(self), (), asdict(self))


@runtime_checkable
class RefillsSeats(Protocol):
    """A collector whose rows a worker may sample by refilled seats.

    Attributes:
        policy: samples them.
        group_size: answers per prompt.
        max_new_tokens: longest answer, in tokens.
        generator: of the uniform numbers.
    """

    policy: RefilledPolicy
    group_size: int
    max_new_tokens: int
    generator: torch.Generator

    def encode(self, batch: TensorDict) -> list[list[int]]:
        """What the policy reads of each prompt."""
        ...

    def answered(self, batch: TensorDict, rollout: TensorDict) -> TensorDict:
        """What a call returns, and records, for sampled rows of :meth:`Policy.generate`."""
        ...


class RefilledPolicy(Policy, Protocol):
    """A policy that samples by refilled seats."""

    def seats(self, *, reread: bool = False) -> Seats:
        """Rows that begin and end at any time."""
        ...

    def check_prompts(self, prompts: list[list[int]], max_new_tokens: int) -> None:
        """Refuse what cannot be answered."""
        ...


class Cluster(metaclass=Checked):
    """Base class of clusters: starts workers, hands them weights and requests, brings replies.

    A worker answers its requests in their order. The weights that a request is answered with are
    those that were handed over with it, whatever has been published since.

    Args:
        workers: processes.
        remote: the stages that run on them, consecutive ones of a phase whose first starts a new
            batch; null: the collector of each phase.
        schedule: ``fixed``: what step ``k`` consumes was asked for in step ``k - staleness``.
            ``free``: workers refill the seats of rows that have ended, take new weights between
            decode steps, and a step consumes the groups that are done first.
        staleness: steps between request and use; 0: each step waits for its own rollouts. null: as
            many as ``collector=delayed`` would simulate, else 1. Under ``free`` rollouts of so many
            steps are asked for ahead.
        timeout: seconds without a word after which a worker that is waited for is ended.
        restarts: how many lost workers of a run are started again.
        free: how, under ``free``.

    Attributes:
        links: to the workers, in their order; empty before they are started, and once they ended.
    """

    ends_with_run = True

    def __init__(
        self,
        *,
        workers: PositiveInt = 1,
        remote: list[str] | None = None,
        schedule: Literal["fixed", "free"] = "fixed",
        staleness: NonNegativeInt | None = None,
        timeout: PositiveFloat = 600.0,
        restarts: NonNegativeInt = 3,
        free: Free | None = None,
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
        self.free = free or Free()
        self.links: list[Any] = []

    def another(self) -> Cluster:
        """A cluster of the same settings, with workers of its own."""
        made = copy.copy(self)
        made.links = []
        return made

    def prepare(self) -> None:
        """Begin to start workers, which takes seconds, before what they run is there."""

    @abstractmethod
    def start(
        self, stages: bytes, sizes: list[int], versions: int, free: Free | None = None
    ) -> None:
        """Hand the stages to every worker.

        Args:
            stages: of :func:`rlcomp.cluster.carried.carry`.
            sizes: bytes of each storage of weights.
            versions: of so many publications the weights are kept, the last one included.
            free: how workers decode, its seats given; None under ``fixed``.
        """

    @abstractmethod
    def publish(self, weights: list[Tensor]) -> object:
        """Copy weights, which may be changed as soon as this returns; what a request is given.

        Args:
            weights: the storages, as bytes: uint8, one dimension.
        """

    @abstractmethod
    def ask(self, worker: int, weights: object, request: Request | None) -> None:
        """Hand a request to a worker, or weights only (None; ``free``); returns at once."""

    @abstractmethod
    def receive(self, worker: int, timeout: float) -> Reply:
        """The next reply of a worker.

        Raises:
            WorkerLost: it is gone, or says nothing for ``timeout`` seconds.
            Exception: whatever the stages raised.
        """

    def poll(self, worker: int, silent: float) -> Reply | None:
        """The next reply of a worker under ``free``, if one is there; returns at once.

        Args:
            worker: its number.
            silent: seconds since it was asked, or replied; above ``timeout`` it is lost.

        Raises:
            WorkerLost: it is gone, or has been silent for too long.
            Exception: whatever the stages raised.
        """
        raise NotImplementedError

    @abstractmethod
    def restart(self, worker: int) -> None:
        """End a worker and start it again, with no request."""

    @abstractmethod
    def close(self) -> None:
        """End all workers at once, whatever they are doing; :meth:`start` may come again."""


@runtime_checkable
class SimulatesDelay(Protocol):
    """A collector that lets rollouts wait, as those of a cluster do by themselves."""

    staleness: int

    @property
    def undelayed(self) -> nn.Module:
        """What makes the rollouts."""
        ...
