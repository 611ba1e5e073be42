"""Context for calls of a stage outside the training batches."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn

from rlcomp.metrics import recording


@contextmanager
def aside(stage: nn.Module) -> Iterator[None]:
    """Set a stage to eval mode and drop its metrics within the context; return the context.

    Modules that count batches (``reference=refreshed``) do not count in eval mode. At the end the
    modules return to their earlier modes.

    Args:
        stage: the stage to call, such as the reference that an evaluator scores with.
    """
    modes = {module: module.training for module in stage.modules()}
    stage.eval()
    try:
        with recording():
            yield
    finally:
        for module, mode in modes.items():
            module.training = mode
