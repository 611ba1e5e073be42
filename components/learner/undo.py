"""Takes back what a skipped optimiser step changed beside parameters and optimiser."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from torch import nn

from rlcomp.metrics import take_back


def undoing(parts: Iterable[nn.Module]) -> Callable[[], None]:
    """A function that restores parts of a step, streams of random numbers and metrics.

    What counts as the state of a part: buffers, generators and plain numbers, which sum up what its
    micro-batches measured.

    Args:
        parts: losses and aggregators; they hold no model.

    Returns:
        Called without arguments, as often as one likes.
    """
    modules = [module for part in parts for module in part.modules()]
    buffers = [(b, b.clone()) for module in modules for b in module.buffers(recurse=False)]
    plain = [
        (vars(m), {k: v for k, v in vars(m).items() if type(v) in (int, float)}) for m in modules
    ]
    drawing = {
        id(value): value
        for module in modules
        for value in vars(module).values()
        if isinstance(value, torch.Generator)
    }
    streams = [(generator, generator.get_state()) for generator in drawing.values()]
    cpu, forget = torch.get_rng_state(), take_back()
    gpus = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []

    def undo() -> None:
        with torch.no_grad():
            for buffer, value in buffers:
                buffer.copy_(value)
        for attributes, values in plain:
            attributes.update(values)
        for generator, state in streams:
            generator.set_state(state)
        torch.set_rng_state(cpu)
        if gpus:
            torch.cuda.set_rng_state_all(gpus)
        forget()

    return undo
