"""Ranks of one run: rank 0 runs the phases, the others run the calls that it broadcasts."""

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
from rlcomp.parallel.state_sync import State, load_small_state, small_state
from rlcomp.parallel.weights import Parallel, Weights
from rlcomp.parallel.world import local_rank, rank_and_size

# Errors of a batch or a checkpoint: every rank raises them, and can continue after them.
_COMMON_ERRORS = (NumericalError, CheckpointError)


class Ranks:
    """The processes of a run.

    Rank 0 runs the phases. The others have the learners and their models, and wait in :meth:`lead`
    for the calls of rank 0 (:meth:`call_on_all`).

    Args:
        parallel: divides weights among the ranks.
        rank: rank of this process.
        size: number of ranks.
        device: device of this process's models.

    Attributes:
        models: weights of the trained models.
        nodes: the run's nodes by name; None before :meth:`lead`.
        busy: whether all ranks run a call now, or an error has ended their last call.
    """

    def __init__(self, parallel: Parallel, rank: int, size: int, device: torch.device) -> None:
        self.parallel = parallel
        self.rank, self.size, self.device = rank, size, device
        self.models: list[Weights] = []
        self.nodes: Mapping[str, object] | None = None
        self.busy = False
        # The process group of calls. It is separate, so that calls never mix with the communication
        # of passes.
        self.calls = dist.new_group(backend="gloo", timeout=timedelta(seconds=parallel.timeout))

    def weights(self, module: nn.Module) -> Weights:
        """Return the weights of a model, one object per model."""
        weights = next((each for each in self.models if each.owner is module), None)
        if weights is None:
            weights = self.parallel.weights(module)
            self.models.append(weights)
        return weights

    def can_share(self, module: nn.Module) -> bool:
        """Return whether :meth:`call_on_all` can now run a pass of this model."""
        return (
            self.nodes is not None
            and not self.busy
            and threading.current_thread() is threading.main_thread()
            and any(model.owner is module for model in self.models)
        )

    def lead(self, nodes: Mapping[str, object]) -> bool:
        """Return True on rank 0; on another rank, run the calls of rank 0, then return False.

        Args:
            nodes: the run's nodes by name: every learner, and on rank 0 any others.

        Raises:
            ConfigError: no learner shares its steps.
            ProcessEnded: rank 0 has ended.
        """
        if not self.models:
            raise ConfigError(
                "parallel: no learner of this run shares its steps: ranks share the rows of token "
                "sequences, and this is control, or nothing is trained; use parallel=none, "
                "without torchrun"
            )
        self.nodes = dict(nodes)
        # The order of the models must be the same on every rank, in any order of construction.
        self.models.sort(key=lambda model: self._node_path(model.owner))
        if self.rank == 0:
            return True
        for model in self.models:
            model.free_owner()
        while (call := self._receive()) is not None:
            self._run_call(*call)
        return False

    def call_on_all(self, node: nn.Module, method: str, *arguments: object) -> Any:  # noqa: ANN401
        """Call a method of a node on all ranks; return its result here.

        Before the call, rank 0 sends the weights that were written since the last call, and the
        small state of the node, to the others. Within a call of all ranks nothing is sent: every
        rank comes to this line by itself.

        Args:
            node: one of the nodes of :meth:`lead`.
            method: name of the method.
            arguments: arguments of the method; a TensorDict is sent through the CPU.

        Raises:
            ConfigError: :meth:`lead` was not called, or with other nodes.
        """
        if self.busy:  # all ranks run the same call
            return getattr(node, method)(*arguments)
        owners = [model.owner for model in self.models]
        stale = [model.stale() for model in self.models]
        if self.size > 1:
            state = small_state(node, owners)
            sent = [v.cpu() if isinstance(v, TensorDict) else v for v in arguments]
            self._send((self._node_path(node), method, sent, progress(), step(), state, stale))
        return self._call_here(node, method, arguments, stale)

    def _node_path(self, node: nn.Module) -> str:
        paths = [path for path, each in (self.nodes or {}).items() if each is node]
        if not paths:
            raise ConfigError(
                f"{type(node).__name__} is shared by {self.size} ranks, which do not know it: "
                "hand all nodes to ranks.lead(make.nodes) first"
            )
        return paths[0]

    def _run_call(
        self,
        path: str,
        method: str,
        arguments: list[object],
        progress: float,
        step: int,
        state: State,
        stale: list[list[int]],
    ) -> None:
        node: Any = (self.nodes or {})[path]
        arguments = [v.to(self.device) if isinstance(v, TensorDict) else v for v in arguments]
        load_small_state(node, [model.owner for model in self.models], state)
        # Rank 0 gets the same errors, and decides how to continue.
        with recording(progress=progress, step=step), contextlib.suppress(*_COMMON_ERRORS):
            self._call_here(node, method, arguments, stale)

    def _call_here(self, node: Any, method: str, arguments: Any, stale: list[list[int]]) -> Any:  # noqa: ANN401
        self.busy = True
        try:
            for model, indices in zip(self.models, stale, strict=True):
                model.refresh(indices)
            result = getattr(node, method)(*arguments)
        except _COMMON_ERRORS:
            self._end_call()
            raise
        except RuntimeError as error:
            if _is_connection_error(error):
                add_note(error, self._lost_message())
            raise  # the ranks are no longer in step: ``busy`` stays True
        self._end_call()
        return result

    def _end_call(self) -> None:
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
            raise ProcessEnded(f"rank {self.rank}: {self._lost_message()}") from error
        return call[0]

    def _lost_message(self) -> str:
        return (
            "another rank is gone, or was silent for longer than parallel.timeout="
            f"{self.parallel.timeout:g} seconds; where a rollout takes so long, raise it"
        )

    def all_reduce(self, tensor: Tensor) -> Tensor:
        """Return the sum of a tensor over ranks."""
        result = tensor.detach().clone()
        dist.all_reduce(result)
        return result

    def maximum(self, number: int) -> int:
        """Return the largest of the ranks' numbers."""
        result = torch.tensor(number)
        dist.all_reduce(result, dist.ReduceOp.MAX, group=self.calls)
        return int(result)

    def all_gather(self, value: object) -> list[Any]:
        """Return the values of all ranks, in order."""
        values: list[Any] = [None] * self.size
        dist.all_gather_object(values, value, group=self.calls)
        return values

    def release(self) -> None:
        """End the other ranks; within a call they notice the end of rank 0 themselves."""
        if self.rank == 0 and self.size > 1 and self.nodes is not None and not self.busy:
            with contextlib.suppress(RuntimeError):  # they have ended
                self._send(None)


def _is_connection_error(error: RuntimeError) -> bool:
    text = str(error).lower()
    return isinstance(error, dist.DistError) or any(
        word in text for word in ("connection", "timed out", "timeout")
    )


_ranks: ContextVar[Ranks | None] = ContextVar("ranks", default=None)


def ranks() -> Ranks | None:
    """Return the ranks of this run; None for a single process."""
    return _ranks.get()


def current_ranks() -> Ranks:
    """Return the ranks of this run, within the context of :func:`sharing`."""
    group = _ranks.get()
    assert group is not None
    return group


@contextlib.contextmanager
def sharing(parallel: Parallel, device: torch.device | str = "cpu") -> Iterator[Ranks]:
    """Yield the ranks of torchrun's processes; learners built within the context share them.

    A process without torchrun is one rank. After the context, rank 0 ends the other ranks.

    Args:
        parallel: divides weights among the ranks.
        device: device of this process's models; ``cuda`` is the GPU of the local rank.

    Examples:
        In a program started by torchrun::

            with sharing(Shard()) as ranks:
                ...  # every process builds the parts
                if ranks.lead(make.nodes):
                    run_phases(phases, nodes=make.nodes, seed=0)
    """
    rank, size = rank_and_size()
    device = torch.device(device)
    if device.type == "cuda":
        device = torch.device("cuda", local_rank() if device.index is None else device.index)
        torch.cuda.set_device(device)
    try:
        group = _join(parallel, rank, size, device)
        token = _ranks.set(group)
        try:
            yield group
        finally:
            _ranks.reset(token)
            group.release()
    finally:
        if dist.is_initialized():
            with contextlib.suppress(RuntimeError):
                dist.destroy_process_group()


def _join(parallel: Parallel, rank: int, size: int, device: torch.device) -> Ranks:
    """Wait for all processes, and return the ranks."""
    backend = "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo"
    timeout = timedelta(seconds=parallel.timeout)
    try:
        if size > 1:
            dist.init_process_group(backend, timeout=timeout)
        else:
            store = torch._C._distributed_c10d.HashStore()
            dist.init_process_group(backend, timeout=timeout, store=store, rank=0, world_size=1)
        return Ranks(parallel, rank, size, device)
    except RuntimeError as error:
        raise ProcessEnded(
            f"rank {rank} of {size} did not meet the others within "
            f"parallel.timeout={parallel.timeout:g} seconds: one of them ended, and has said why, "
            f"or was never started by torchrun ({str(error).splitlines()[0]:.200})"
        ) from error


def merge_ledgers(ledgers: Sequence[Ledger]) -> Ledger:
    """Merge the ledgers of the ranks, in their order."""
    total = Ledger(ledgers[0].progress, ledgers[0].step)
    for ledger in ledgers:
        total.merge(ledger)
    return total
