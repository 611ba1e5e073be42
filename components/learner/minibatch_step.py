"""Optimiser step on a minibatch: taken, skipped if it is abnormal, or repeated for a trace."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import torch
from tensordict import TensorDict
from torch import Tensor, nn

from rlcomp.component import limit_outputs
from rlcomp.engine.finite import first_non_finite
from rlcomp.errors import NonFiniteSteps, NumericalError, RlcompWarning
from rlcomp.metrics import progress, record, record_total, restore_point

if TYPE_CHECKING:
    from components.learner.gradient import Learner


def limit_minibatches(units: int, requested: int, name: str) -> int:
    """Return the requested number of minibatches; warn and return ``units`` if that is smaller.

    Args:
        units: number of units of the batch, which a filter may have reduced; 0 limits nothing.
        requested: ``num_minibatches``.
        name: name of the learner, for the warning.
    """
    if not 0 < units < requested:
        return requested
    warnings.warn(
        f"{name}: num_minibatches is {requested}, but a batch has only {units} units, so that "
        f"it takes {units} optimiser steps: lower num_minibatches or filter fewer rows",
        RlcompWarning,
        stacklevel=2,
    )
    return units


def minibatch_step(learner: Learner, batch: TensorDict) -> bool:
    """Take an optimiser step on a minibatch, or skip it; return whether it was taken.

    A step is skipped if its loss or gradient is not finite, or if its gradient is a spike and
    ``gradient_spike.action`` is ``skip``. A skipped step changes nothing but the count of such
    steps and the window of gradient norms; its gradient stays in ``.grad`` until the next step.

    Args:
        learner: takes the step.
        batch: rows of the minibatch.

    Raises:
        NonFiniteSteps: the number of consecutive steps that were not finite reaches
            ``non_finite.limit``.
    """
    restore_state = snapshot_state(learner.passes.parts)
    learner.optimizer.zero_grad()
    try:
        norm = _gradient(learner, batch)
    except NumericalError as error:
        restore_state()
        _count_non_finite(learner, batch, error)
        return False
    spike = learner.gradient_spike.is_spike(float(norm))
    skipped = spike and learner.gradient_spike.action == "skip"
    if skipped:
        restore_state()
    else:
        learner.take(norm, progress())
    learner.non_finite.reset()
    record_total(f"{learner.name}/non_finite", 0.0)
    record_total(f"{learner.name}/gradient_spikes", float(spike))
    return not skipped


def _gradient(learner: Learner, batch: TensorDict) -> Tensor:
    """Add the gradient of an optimiser step to ``.grad``; record its losses and return its norm."""
    if "response_mask" in batch.keys():
        record_total(f"{learner.name}/tokens", float(batch["response_mask"].sum()))
    losses = learner.differentiate(batch)
    norm = learner.optimizer_step.norm(learner.frozen)
    for name, value in losses.items():
        if not math.isfinite(value):
            raise NumericalError(f"the loss {name} is {value}, although its gradient is finite")
        record(f"loss/{name}", value)
    return norm


def _count_non_finite(learner: Learner, batch: TensorDict, error: NumericalError) -> None:
    """Count a step that is not finite; raise if the limit is reached."""
    record_total(f"{learner.name}/non_finite", 1.0)
    if not learner.non_finite.count_skip():
        return
    number, limit = learner.non_finite.in_a_row, learner.non_finite.limit
    steps = f"{number} optimiser steps in a row were" if number > 1 else "an optimiser step was"
    bad_keys = [f"{key} (in its {stage})" for stage, key in learner.trace(batch).items() if key]
    first = bad_keys[0] if bad_keys else str(error)
    raise NonFiniteSteps(
        f"{steps} not finite ({learner.name}.non_finite.limit is {limit}); first bad key: {first}; "
        f"{error}: correct the stage that writes this key, or lower the learning rate",
        learner,
        batch,
    ) from error


def snapshot_state(parts: Iterable[nn.Module]) -> Callable[[], None]:
    """Return a function that restores the current state of modules, random streams and metrics.

    The state of a module is its buffers, its generators and its attributes of type int or float.

    Args:
        parts: losses and aggregators, which hold no model.

    Returns:
        Function without arguments, which may be called several times.
    """
    modules = [module for part in parts for module in part.modules()]
    buffers = [(b, b.clone()) for module in modules for b in module.buffers(recurse=False)]
    numbers = [
        (vars(m), {k: v for k, v in vars(m).items() if type(v) in (int, float)}) for m in modules
    ]
    generators = {
        id(value): value
        for module in modules
        for value in vars(module).values()
        if isinstance(value, torch.Generator)
    }
    streams = [(generator, generator.get_state()) for generator in generators.values()]
    cpu_state, restore_metrics = torch.get_rng_state(), restore_point()
    gpu_states = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []

    def restore() -> None:
        with torch.no_grad():
            for buffer, value in buffers:
                buffer.copy_(value)
        for attributes, values in numbers:
            attributes.update(values)
        for generator, state in streams:
            generator.set_state(state)
        torch.set_rng_state(cpu_state)
        if gpu_states:
            torch.cuda.set_rng_state_all(gpu_states)
        restore_metrics()

    return restore


def trace_step(learner: Learner, batch: TensorDict) -> dict[str, str | None]:
    """Repeat an optimiser step without taking it; return each stage's first non-finite key.

    Args:
        learner: learner of the step. Its state is restored, and its gradients are cleared.
        batch: rows of the step.

    Returns:
        For each stage in order a message about the first key that is not finite; None: all are
        finite. If a stage raises an error, later stages are missing.
    """
    restore_state = snapshot_state(learner.passes.parts)
    bad_keys = {"batch": first_non_finite(batch), "parameters": _first_bad_parameter(learner)}
    try:
        bad_keys["outputs"] = _first_bad_output(learner, batch)
        learner.optimizer.zero_grad()
        losses = learner.differentiate(batch)
        bad = [f"'{name}' is {value}" for name, value in losses.items() if not math.isfinite(value)]
        bad_keys["losses"] = bad[0] if bad else None
        bad_keys["gradients"] = learner.optimizer_step.first_bad_gradient()
    except NumericalError as error:
        bad_keys["losses" if "outputs" in bad_keys else "outputs"] = str(error)
    finally:
        restore_state()
        learner.optimizer.zero_grad()
    return bad_keys


def _first_bad_parameter(learner: Learner) -> str | None:
    for name, parameter in learner.named_parameters():
        if not bool(parameter.isfinite().all()):
            return f"'{name}' is not finite"
    return None


def _first_bad_output(learner: Learner, batch: TensorDict) -> str | None:
    model = learner.strategy.module
    if model is None:
        return None
    with torch.no_grad(), limit_outputs(learner.loss_keys):
        for micro in learner.passes.micro_batches(batch):
            outputs = model(micro.copy())
            learner.strategy.end_forward()
            masks = [key for key in ("response_mask", "reward_valid") if key in outputs.keys()]
            bad = first_non_finite(outputs.select(*model.out_keys, *masks, strict=False))
            if bad is not None:
                return bad
    return None
