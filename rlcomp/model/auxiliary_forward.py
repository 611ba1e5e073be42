"""Context of auxiliary calls of a stage, outside of the training batches."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn

from rlcomp.metrics import recording


@contextmanager
def muted_eval(stage: nn.Module) -> Iterator[None]:
    """Set a stage to eval mode and discard its metrics within the context.

    Modules that count batches (``reference=refreshed``) do not count in eval mode.
    """
    modes = {module: module.training for module in stage.modules()}
    stage.eval()
    try:
        with recording():
            yield
    finally:
        for module, mode in modes.items():
            module.training = mode
