"""Serialisation of stages for workers: pickled once, their weights and generators apart.

Weights are storages, as in a checkpoint of torch: tied tensors and views stay what they are, and
new weights are written below all of them. Pickles go from a run to its own workers, and nowhere
else.
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
from rlcomp.engine.part import PartGenerator
from rlcomp.errors import ConfigError
from rlcomp.interfaces.rewinds import Rewinds


class Carried:
    """Stages, and what of them is handed over with every request.

    Attributes:
        stages: in their order.
        generators: all that the stages hold, each once.
        weights: the storages of what may change: trainable parameters and buffers of modules,
            wherever they stand, each once; as bytes.

    Raises:
        ConfigError: a part has a state of its own that no request brings along, or cannot be sent.
    """

    def __init__(self, stages: Sequence[nn.Module]) -> None:
        found, kind = _Pickler(file := io.BytesIO()), type(stages[0]).__name__
        try:
            found.dump(list(stages))
        except (pickle.PicklingError, TypeError, AttributeError, RecursionError) as error:
            if not found.stateful:
                raise ConfigError(
                    f"cluster: what {kind} holds cannot be sent to a worker "
                    f"({type(error).__name__}: {error}): name other stages in cluster.remote, or "
                    "set cluster=none"
                ) from error
        if found.stateful:
            raise ConfigError(
                f"cluster: a {type(found.stateful[0]).__name__}, which {kind} runs, has a state "
                "from step to step: on a worker it would be another one, which no checkpoint sees; "
                "take it out of cluster.remote, or set cluster=none"
            )
        self.stages = list(stages)
        self.generators = list(found.generators.values())
        self._storages = [_bytes(storage) for storage in found.storages]
        self._changing = found.changing()
        self._structure = file.getvalue()
        self.weights = [self._storages[place] for place in self._changing]

    def data(self) -> bytes:
        """All that a worker needs, with what does not change as it is now."""
        kept = list(self._storages)
        for place in self._changing:
            kept[place] = kept[place].new_zeros(()).expand(len(kept[place]))  # sent as one byte
        return pickle.dumps((self._structure, kept, self._changing), protocol=5)


def unpack(data: bytes) -> tuple[list[nn.Module], list[PartGenerator], list[Tensor]]:
    """The stages, generators and weights of :meth:`Carried.data`; the weights are zero."""
    stages, kept, changing = pickle.loads(data)
    storages = [one.contiguous().untyped_storage() for one in kept]
    reader = _Unpickler(io.BytesIO(stages))
    reader.storages, reader.generators = storages, {}
    found = reader.load()
    generators = [reader.generators[n] for n in sorted(reader.generators)]
    return found, generators, [_bytes(storages[place]) for place in changing]


def _bytes(storage: torch.UntypedStorage) -> Tensor:
    return torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage)


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]
    """Puts storages and generators aside."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file, protocol=pickle.HIGHEST_PROTOCOL)
        self.storages: list[torch.UntypedStorage] = []
        self.generators: dict[int, torch.Generator] = {}
        self.stateful: list[object] = []
        self._places: dict[int, int] = {}
        self._tensors: list[Tensor] = []

    def persistent_id(self, obj: object) -> tuple[Any, ...] | None:
        """Called for every object on its way."""
        if isinstance(obj, torch.Generator):
            self.generators.setdefault(id(obj), obj)
            return "generator", [*self.generators].index(id(obj))
        if isinstance(obj, torch.storage.TypedStorage):
            return "storage", self._place(obj._untyped_storage), obj.dtype
        if isinstance(obj, torch.UntypedStorage):
            return "storage", self._place(obj), None
        if isinstance(obj, nn.Module):
            own = (*obj.parameters(recurse=False), *obj.buffers(recurse=False))
            self._tensors += [t for t in own if t.requires_grad or not isinstance(t, nn.Parameter)]
        if isinstance(obj, (HasRunState, Rewinds)) and not isinstance(obj, type):
            self.stateful.append(obj)
        return None

    def _place(self, storage: torch.UntypedStorage) -> int:
        key = storage._cdata
        if key not in self._places:
            self._places[key] = len(self.storages)
            self.storages.append(storage)
        return self._places[key]

    def changing(self) -> list[int]:
        """The places of storages that may be written to, in order."""
        return sorted({self._place(each.untyped_storage()) for each in self._tensors})


class _Unpickler(pickle.Unpickler):
    storages: list[torch.UntypedStorage]
    generators: dict[int, PartGenerator]

    def persistent_load(self, pid: tuple[Any, ...]) -> object:
        kind, place, *dtype = pid
        if kind == "generator":
            return self.generators.setdefault(place, PartGenerator(0, 1, 1))
        storage = self.storages[place]
        if dtype == [None]:
            return storage
        return torch.storage.TypedStorage(wrap_storage=storage, dtype=dtype[0], _internal=True)  # type: ignore[no-untyped-call]
