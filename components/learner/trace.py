"""Search for the first value of an optimiser step that is not finite."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from tensordict import TensorDict

from components.learner.minibatch_step import snapshot_state
from rlcomp.component import limit_outputs
from rlcomp.engine.finite import first_non_finite
from rlcomp.errors import NumericalError

if TYPE_CHECKING:
    from components.learner.gradient import Learner


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
