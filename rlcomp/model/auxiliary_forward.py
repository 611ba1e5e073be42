"""Calls of a stage outside the training batches."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn

from rlcomp.metrics import recording


@contextmanager
def aside(stage: nn.Module) -> Iterator[None]:
    """Run a stage in a context in which rows are neither counted nor recorded.

    The modules of the stage are in ``eval`` mode. Modules that count batches
    (``reference=refreshed``) do not count in this mode. Records of the stage do not reach the run.

    Args:
        stage: the stage that is called, such as the reference that an evaluator scores with.
    """
    modes = {module: module.training for module in stage.modules()}
    stage.eval()
    try:
        with recording():
            yield
    finally:
        for module, mode in modes.items():
            module.training = mode
