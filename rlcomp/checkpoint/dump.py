"""Dumps of an optimiser step: a folder with ``batch.safetensors`` and a checkpoint of the learner.

The checkpoint (:mod:`rlcomp.checkpoint.writer`) has the parameters, the optimiser and the
generators as they were before the step, and the run's config.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from tensordict import TensorDict
from torch import Tensor

from rlcomp.checkpoint.reader import SavedCheckpoint, open_checkpoint
from rlcomp.checkpoint.writer import Checkpoint
from rlcomp.errors import CheckpointError

_BATCH = "batch.safetensors"


@dataclass(frozen=True)
class Dump:
    """A dump of an optimiser step.

    Attributes:
        saved: the checkpoint of the learner.
        node: config path of the learner.
        progress: progress of the phase at the step.
        batch: the rows of the step.
    """

    saved: SavedCheckpoint
    node: str
    progress: float
    batch: TensorDict


def write_dump(
    checkpoint: Checkpoint,
    node: str,
    learner: object,
    batch: TensorDict,
    position: dict[str, Any],
    progress: float,
) -> Path:
    """Write a dump beside the checkpoints of a run and return its folder; replace an earlier one.

    Args:
        checkpoint: writer of the run's checkpoints; gives the directory and the config.
        node: config path of the learner.
        learner: the learner, in its state before the step.
        batch: the rows of the step; entries that are not tensors are left out.
        position: the run's position before the step.
        progress: the phase's progress (:func:`rlcomp.metrics.progress`).

    Raises:
        CheckpointError: the dump cannot be written.
    """
    folder = checkpoint.directory / f"dump-{position['total'] + 1:08d}"
    checkpoint.write(folder, {node: learner}, position)
    tensors = {
        # Cloned: safetensors refuses two entries that share their memory.
        json.dumps(key if isinstance(key, tuple) else (key,)): entry.cpu().clone(
            memory_format=torch.contiguous_format
        )
        for key, entry in batch.items(include_nested=True, leaves_only=True)
        if isinstance(entry, Tensor)
    }
    metadata = {"node": node, "progress": repr(progress), "rows": str(batch.shape[0])}
    try:
        save_file(tensors, folder / _BATCH, metadata=metadata)
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"{folder / _BATCH} cannot be written ({error})") from error
    return folder


def read_dump(folder: Path) -> Dump:
    """Read a dump.

    Raises:
        CheckpointError: there is no dump, or it is damaged.
    """
    file = folder / _BATCH
    if not file.is_file():
        raise CheckpointError(f"{folder} is no dump of an optimiser step: it has no {_BATCH}")
    checkpoint = open_checkpoint(folder)
    try:
        with safe_open(file, framework="pt") as reader:
            metadata = reader.metadata() or {}
            entries = {_key(name): reader.get_tensor(name) for name in reader.keys()}
        batch = TensorDict(entries, batch_size=[int(metadata["rows"])])
        if not 0 <= (progress := float(metadata["progress"])) <= 1:
            raise ValueError(f"progress is {progress}: must be between 0 and 1")
        return Dump(checkpoint, str(metadata["node"]), progress, batch)
    except (OSError, SafetensorError, KeyError, TypeError, ValueError, RuntimeError) as error:
        fault = " ".join(str(error).split())[:200]
        raise CheckpointError(f"{file} is not what rlcomp wrote: {fault}") from error


def _key(name: str) -> tuple[str, ...]:
    key = json.loads(name)
    if not isinstance(key, list) or not key or not all(isinstance(part, str) for part in key):
        raise ValueError(f"{name[:60]!r} is no key")
    return tuple(key)
