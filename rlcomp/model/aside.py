"""Calls of a stage beside the training batches."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn

from rlcomp.metrics import recording


@contextmanager
def aside(stage: nn.Module) -> Iterator[None]:
    """Context for rows that are no training batch: they are not counted, nor recorded.

    The stage's modules are in ``eval`` mode, in which those that count batches
    (``reference=refreshed``) do not; what it records is not the run's.

    Args:
        stage: what is called, such as the reference that an evaluator scores with.
    """
    modes = {module: module.training for module in stage.modules()}
    stage.eval()
    try:
        with recording():
            yield
    finally:
        for module, mode in modes.items():
            module.training = mode
