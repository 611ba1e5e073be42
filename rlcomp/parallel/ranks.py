"""Ranks of one run: rank 0 runs the phases, the others join the calls that it broadcasts."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextvars import ContextVar
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from tensordict import TensorDict
from torch import Tensor, nn

from rlcomp.errors import CheckpointError, ConfigError, NumericalError, ProcessEnded, add_note
from rlcomp.metrics import Ledger, progress, recording, step
from rlcomp.parallel.state_sync import State, small_state, take_state
from rlcomp.parallel.weights import Parallel, Weights
from rlcomp.parallel.world import local_rank, world

# Errors of a batch or a checkpoint arise on every rank, and each can continue.
_ON_ALL = (NumericalError, CheckpointError)


class Ranks:
    """The processes of a run; this one is ``rank`` of ``size``.

    Rank 0 runs the phases. The others hold the learners and their models, and wait in
    :meth:`lead` for a method that all call together (:meth:`together`).

    Args:
        parallel: divides weights among them.
        rank: of this process.
        size: number of ranks.
        device: of this process's models.
    """

    def __init__(self, parallel: Parallel, rank: int, size: int, device: torch.device) -> None:
        self.parallel = parallel
        self.rank, self.size, self.device = rank, size, device
        self.models: list[Weights] = []
        self.nodes: Mapping[str, object] | None = None
        self.busy = False
        # A group of its own: calls never mix with the exchange within passes.
        self.calls = dist.new_group(backend="gloo", timeout=timedelta(seconds=parallel.timeout))

    def weights(self, module: nn.Module) -> Weights:
        """Return the weights of a model, one object for all callers."""
        weights = next((one for one in self.models if one.owner is module), None)
        if weights is None:
            weights = self.parallel.weights(module)
            self.models.append(weights)
        return weights

    def holds(self, module: nn.Module) -> bool:
        """Return whether all ranks can read rows with this model now, if rank 0 calls them."""
        free = self.nodes is not None and not self.busy
        return (
            free
            and threading.current_thread() is threading.main_thread()
            and any(one.owner is module for one in self.models)
        )

    def lead(self, nodes: Mapping[str, object]) -> bool:
        """Return True on rank 0; on others answer its calls, and return False when it is done.

        Args:
            nodes: of the run, by name: every learner, and on rank 0 any others.

        Raises:
            ConfigError: no learner shares its steps.
            ProcessEnded: rank 0 is gone.
        """
        if not self.models:
            raise ConfigError(
                "parallel: no learner of this run shares its steps: ranks share the rows of token "
                "sequences, and this is control, or nothing is trained; use parallel=none, "
                "without torchrun"
            )
        self.nodes = dict(nodes)
        # Every rank numbers them alike, in any order of construction.
        self.models.sort(key=lambda model: self._path(model.owner))
        if self.rank == 0:
            return True
        for model in self.models:
            model.leave_whole()
        while (call := self._receive()) is not None:
            self._answer(*call)
        return False

    def together(self, node: nn.Module, method: str, *arguments: object) -> Any:  # noqa: ANN401
        """Call a method of a node on all ranks, and return its result here.

        Before the call, the other ranks get rank 0's weights and small state of the node.

        Args:
            node: one of those of :meth:`lead`.
            method: its name.
            arguments: of the method; a TensorDict is sent through the CPU.

        Raises:
            ConfigError: :meth:`lead` was not called, or with other nodes.
        """
        if self.busy:  # all are here already
            return getattr(node, method)(*arguments)
        owners = [model.owner for model in self.models]
        stale = [model.stale() for model in self.models]
        if self.size > 1:
            state = small_state(node, owners)
            sent = [v.cpu() if isinstance(v, TensorDict) else v for v in arguments]
            self._send((self._path(node), method, sent, (progress(), step()), state, stale))
        return self._call(node, method, arguments, stale)

    def _path(self, node: nn.Module) -> str:
        named = [path for path, one in (self.nodes or {}).items() if one is node]
        if not named:
            raise ConfigError(
                f"{type(node).__name__} is shared by {self.size} ranks, which do not know it: "
                "hand all nodes to ranks.lead(make.nodes) first"
            )
        return named[0]

    def _answer(
        self,
        path: str,
        method: str,
        arguments: list[object],
        at: tuple[float, int],
        state: State,
        stale: list[list[int]],
    ) -> None:
        node: Any = (self.nodes or {})[path]
        arguments = [v.to(self.device) if isinstance(v, TensorDict) else v for v in arguments]
        take_state(node, [model.owner for model in self.models], state)
        # These errors arise on all ranks, and rank 0 decides how to continue.
        with recording(progress=at[0], step=at[1]), contextlib.suppress(*_ON_ALL):
            self._call(node, method, arguments, stale)

    def _call(self, node: Any, method: str, arguments: Any, stale: list[list[int]]) -> Any:  # noqa: ANN401
        self.busy = True
        try:
            for model, parts in zip(self.models, stale, strict=True):
                model.refresh(parts)
            result = getattr(node, method)(*arguments)
        except _ON_ALL:
            self._done()
            raise
        except RuntimeError as error:
            if _of_a_connection(error):
                add_note(error, self._lost())
            raise
        self._done()
        return result

    def _done(self) -> None:
        for model in self.models:
            model.mark()
        self.busy = False

    def _send(self, call: object) -> None:
        dist.broadcast_object_list([call], src=0, group=self.calls)

    def _receive(self) -> Any:  # noqa: ANN401
        call = [None]
        try:
            dist.broadcast_object_list(call, src=0, group=self.calls)
        except RuntimeError as error:
            raise ProcessEnded(f"rank {self.rank}: {self._lost()}") from error
        return call[0]

    def _lost(self) -> str:
        return (
            "another rank is gone, or was silent for longer than parallel.timeout="
            f"{self.parallel.timeout:g} seconds; where a rollout takes so long, raise it"
        )

    def total(self, tensor: Tensor) -> Tensor:
        """Return the sum over ranks."""
        result = tensor.detach().clone()
        dist.all_reduce(result)
        return result

    def most(self, number: int) -> int:
        """Return the largest of the ranks' numbers."""
        result = torch.tensor(number)
        dist.all_reduce(result, dist.ReduceOp.MAX, group=self.calls)
        return int(result)

    def gathered(self, value: object) -> list[Any]:
        """Return the values of all ranks, in their order."""
        values: list[Any] = [None] * self.size
        dist.all_gather_object(values, value, group=self.calls)
        return values

    def dismiss(self) -> None:
        """End the other ranks, unless they are within a call: then they notice themselves."""
        if self.rank == 0 and self.size > 1 and self.nodes is not None and not self.busy:
            with contextlib.suppress(RuntimeError):  # they are gone
                self._send(None)


def _of_a_connection(error: RuntimeError) -> bool:
    text = str(error).lower()
    return isinstance(error, dist.DistError) or any(
        word in text for word in ("connection", "timed out", "timeout")
    )


_ranks: ContextVar[Ranks | None] = ContextVar("ranks", default=None)


def ranks() -> Ranks | None:
    """Return the ranks of this run; None where it is one process."""
    return _ranks.get()


def here() -> Ranks:
    """Return the ranks, within a call on all of them."""
    group = _ranks.get()
    assert group is not None
    return group


@contextlib.contextmanager
def sharing(parallel: Parallel, device: torch.device | str = "cpu") -> Iterator[Ranks]:
    """Yield the ranks of torchrun's processes; learners built within the context share them.

    A process that torchrun did not start is one rank.

    Args:
        parallel: divides weights among them.
        device: of this process's models; ``cuda`` takes the GPU of its number.

    Yields:
        The ranks. Behind the context the others are ended.

    Examples:
        By hand, in a program that torchrun starts::

            with sharing(Shard()) as ranks:
                ...  # every process builds the parts
                if ranks.lead(make.nodes):
                    run_phases(phases, nodes=make.nodes, seed=0)
    """
    rank, size = world()
    where = torch.device(device)
    if where.type == "cuda":
        where = torch.device("cuda", local_rank() if where.index is None else where.index)
        torch.cuda.set_device(where)
    try:
        group = _join(parallel, rank, size, where)
        token = _ranks.set(group)
        try:
            yield group
        finally:
            _ranks.reset(token)
            group.dismiss()
    finally:
        if dist.is_initialized():
            with contextlib.suppress(RuntimeError):
                dist.destroy_process_group()


def _join(parallel: Parallel, rank: int, size: int, where: torch.device) -> Ranks:
    """Wait for all processes, and return the ranks."""
    backend = "cpu:gloo,cuda:nccl" if where.type == "cuda" else "gloo"
    timeout = timedelta(seconds=parallel.timeout)
    try:
        if size > 1:
            dist.init_process_group(backend, timeout=timeout)
        else:
            store = torch._C._distributed_c10d.HashStore()
            dist.init_process_group(backend, timeout=timeout, store=store, rank=0, world_size=1)
        return Ranks(parallel, rank, size, where)
    except RuntimeError as error:
        raise ProcessEnded(
            f"rank {rank} of {size} did not meet the others within "
            f"parallel.timeout={parallel.timeout:g} seconds: one of them ended, and has said why, "
            f"or was never started by torchrun ({str(error).splitlines()[0]:.200})"
        ) from error


def merged(ledgers: Sequence[Ledger]) -> Ledger:
    """Merge the ledgers of the ranks, in their order."""
    total = Ledger(ledgers[0].progress, ledgers[0].step)
    for ledger in ledgers:
        total.merge(ledger)
    return total
