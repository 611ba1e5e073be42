"""Where an optimiser step stops being finite: batch, parameters, outputs, losses, gradients."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from tensordict import TensorDict

from components.learner.minibatch_step import undoing
from rlcomp.component import asking
from rlcomp.engine.finite import first_bad
from rlcomp.errors import NumericalError

if TYPE_CHECKING:
    from components.learner.gradient import Learner


def trace(learner: Learner, batch: TensorDict) -> dict[str, str | None]:
    """Repeat an optimiser step without taking it; say of each stage what is not finite in it first.

    Args:
        learner: whose step it is; afterwards it is as before, without gradients.
        batch: the rows of the step.

    Returns:
        By stage, in their order: the first bad key, in words, or None. A stage behind one that
        ended the step is not there.
    """
    undo = undoing(learner.passes.parts)
    found = {"batch": first_bad(batch), "parameters": _first_bad_parameter(learner)}
    try:
        found["outputs"] = _first_bad_output(learner, batch)
        learner.optimizer.zero_grad()
        losses = learner.differentiate(batch)
        bad = [f"'{name}' is {value}" for name, value in losses.items() if not math.isfinite(value)]
        found["losses"] = bad[0] if bad else None
        found["gradients"] = learner.optimizer_step.first_bad_gradient()
    except NumericalError as error:
        found["losses" if "outputs" in found else "outputs"] = str(error)
    finally:
        undo()
        learner.optimizer.zero_grad()
    return found


def _first_bad_parameter(learner: Learner) -> str | None:
    for name, parameter in learner.named_parameters():
        if not bool(parameter.isfinite().all()):
            return f"'{name}' is not finite"
    return None


def _first_bad_output(learner: Learner, batch: TensorDict) -> str | None:
    model = learner.strategy.module
    if model is None:
        return None
    with torch.no_grad(), asking(learner.wanted):
        for micro in learner.passes.micro_batches(batch):
            seen = model(micro.copy())
            learner.strategy.end_forward()
            masks = [key for key in ("response_mask", "reward_valid") if key in seen.keys()]
            bad = first_bad(seen.select(*model.out_keys, *masks, strict=False))
            if bad is not None:
                return bad
    return None
