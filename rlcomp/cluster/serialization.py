"""Serialisation of stages for workers: pickled once, separate from weights and generators.

Weights are storages, as in a checkpoint of torch: tied tensors and views keep their relations, and
new weights are written into the storages. Only the workers of a run read the pickles of the run.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Sequence
from typing import Any

import cloudpickle  # type: ignore[import-untyped]
import torch
from torch import Tensor, nn

from rlcomp.checkpoint.state import HasRunState
from rlcomp.engine.uniforms import SliceGenerator
from rlcomp.errors import ConfigError
from rlcomp.interfaces.protocols import ResumableEnvironment


class SerializedStages:
    """Serialised stages; their generators and weights are sent separately with every request.

    Attributes:
        generators: all generators of the stages, each once.
        weights: the storages that may change, as bytes: trainable parameters and buffers of all
            modules, each once.

    Raises:
        ConfigError: a part of a stage has a state across steps, or cannot be pickled.
    """

    def __init__(self, stages: Sequence[nn.Module]) -> None:
        file = io.BytesIO()
        pickler = _Pickler(file)
        kind = type(stages[0]).__name__
        try:
            pickler.dump(list(stages))
        except (pickle.PicklingError, TypeError, AttributeError, RecursionError) as error:
            if not pickler.stateful:
                raise ConfigError(
                    f"cluster: a part of {kind} cannot be sent to a worker "
                    f"({type(error).__name__}: {error}): name other stages in cluster.remote, or "
                    "set cluster=none"
                ) from error
        if pickler.stateful:
            raise ConfigError(
                f"cluster: a {type(pickler.stateful[0]).__name__}, a part of {kind}, has a state "
                "across steps, and a worker's copy of the state is in no checkpoint: "
                "take it out of cluster.remote, or set cluster=none"
            )
        self.generators = list(pickler.generators.values())
        self._storages = [_bytes(storage) for storage in pickler.storages]
        self._changing = pickler.changing_indices()
        self._structure = file.getvalue()
        self.weights = [self._storages[index] for index in self._changing]

    def data(self) -> bytes:
        """Return the data that a worker needs, with the current values of constant storages."""
        storages = list(self._storages)
        for index in self._changing:
            # One byte, expanded: the weights follow with every request.
            storages[index] = storages[index].new_zeros(()).expand(len(storages[index]))
        return pickle.dumps((self._structure, storages, self._changing), protocol=5)


def unpack(data: bytes) -> tuple[list[nn.Module], list[SliceGenerator], list[Tensor]]:
    """Return stages, generators and zero weights from :meth:`SerializedStages.data`."""
    stages, constants, changing = pickle.loads(data)
    storages = [constant.contiguous().untyped_storage() for constant in constants]
    reader = _Unpickler(io.BytesIO(stages))
    reader.storages, reader.generators = storages, {}
    modules = reader.load()
    generators = [reader.generators[n] for n in sorted(reader.generators)]
    return modules, generators, [_bytes(storages[index]) for index in changing]


def _bytes(storage: torch.UntypedStorage) -> Tensor:
    """Return a storage as a tensor of bytes that shares its memory."""
    return torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage)


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]
    """Pickler that replaces storages and generators by references."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file, protocol=pickle.HIGHEST_PROTOCOL)
        self.storages: list[torch.UntypedStorage] = []
        self.generators: dict[int, torch.Generator] = {}
        self.stateful: list[object] = []
        self._indices: dict[int, int] = {}
        self._tensors: list[Tensor] = []

    def persistent_id(self, obj: object) -> tuple[Any, ...] | None:
        """Return the reference of a storage or generator; None for other objects.

        Pickle calls this for every object. So it also collects the tensors of modules that may
        change, and the parts that have a state across steps.
        """
        if isinstance(obj, torch.Generator):
            self.generators.setdefault(id(obj), obj)
            return "generator", [*self.generators].index(id(obj))
        if isinstance(obj, torch.storage.TypedStorage):
            return "storage", self._index(obj._untyped_storage), obj.dtype
        if isinstance(obj, torch.UntypedStorage):
            return "storage", self._index(obj), None
        if isinstance(obj, nn.Module):
            tensors = (*obj.parameters(recurse=False), *obj.buffers(recurse=False))
            self._tensors += [
                each for each in tensors if each.requires_grad or not isinstance(each, nn.Parameter)
            ]
        if isinstance(obj, (HasRunState, ResumableEnvironment)) and not isinstance(obj, type):
            self.stateful.append(obj)
        return None

    def _index(self, storage: torch.UntypedStorage) -> int:
        key = storage._cdata
        if key not in self._indices:
            self._indices[key] = len(self.storages)
            self.storages.append(storage)
        return self._indices[key]

    def changing_indices(self) -> list[int]:
        """Return the indices of storages that may change, in order."""
        return sorted({self._index(tensor.untyped_storage()) for tensor in self._tensors})


class _Unpickler(pickle.Unpickler):
    """Unpickler that resolves the references of :class:`_Pickler`."""

    storages: list[torch.UntypedStorage]
    generators: dict[int, SliceGenerator]

    def persistent_load(self, pid: tuple[Any, ...]) -> object:
        kind, index, *dtype = pid
        if kind == "generator":
            # Each request sets the seed and the slice (StageWorker).
            return self.generators.setdefault(index, SliceGenerator(0, 1, 1))
        storage = self.storages[index]
        if dtype == [None]:
            return storage
        return torch.storage.TypedStorage(wrap_storage=storage, dtype=dtype[0], _internal=True)  # type: ignore[no-untyped-call]
