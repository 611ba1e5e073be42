"""Rows of an optimiser step with and without a gradient, and known outputs of the latter.

A row whose advantage is 0 at every token adds 0 to the gradient of a policy loss. It enters
denominators (``Loss.prepare``) and metrics alone. Metrics need its log-probs: on the first step
after sampling they are what the sampler recorded; later they are read without a gradient.
"""

from __future__ import annotations

from collections.abc import Iterable, Set

import torch
from tensordict import TensorDict
from tensordict.nn import TensorDictModuleBase
from torch import Tensor

from components.learner.checks import check_routes
from rlcomp.canonical import canonical
from rlcomp.component import Component
from rlcomp.errors import ConfigError
from rlcomp.functional.reduction import masked
from rlcomp.interfaces.loss import Loss
from rlcomp.interfaces.policy import Policy
from rlcomp.metrics import record

# Nats. Recorded log-probs within this distance count as the policy's own: ten times the rounding of
# a float32 forward pass.
_ROUNDING = 1e-4
# Keys of the policy's recorded log-probs, best first.
_RECORDED = ("old_log_probs", "rollout_log_probs")
# Keys that describe how a batch was sampled.
_SAMPLED = (*_RECORDED, "policy_version")


def sampled_keys(batch: TensorDict) -> set[str]:
    """Return the keys of a batch that describe how its tokens were sampled; all are optional."""
    mask = batch.get("response_mask", None)
    return {
        key
        for key in _SAMPLED
        if mask is not None and key in batch.keys() and batch[key].shape == mask.shape
    }


def gradient_rows(losses: Iterable[Loss], rows: TensorDict, unit_rows: int) -> Tensor | None:
    """Return a mask of the rows that the gradient of losses flows through; None for any row.

    Args:
        losses: see :meth:`rlcomp.interfaces.loss.Loss.gradient_rows`.
        rows: of an optimiser step, ``[B]``.
        unit_rows: number of adjacent rows that stay together.

    Returns:
        Shape ``[B]``, bool, at least one unit. Without any, parameters would have no gradient, and
        an optimiser would skip them; at a gradient of 0 it decays them.
    """
    needed = torch.zeros(rows.batch_size, dtype=torch.bool)
    for loss in losses:
        mask = loss.gradient_rows(loss.view(rows))
        if mask is None:
            return None
        needed |= mask.cpu()
    needed = needed.view(-1, unit_rows).any(1).repeat_interleave(unit_rows)
    if not bool(needed.any()):
        needed[:unit_rows] = True
    return needed


def needed_rows(
    model: TensorDictModuleBase, batch: TensorDict, wanted: Set[str], *, replayed: bool, name: str
) -> TensorDict:
    """Return the rows with the keys that model and losses read, checked and canonical.

    Args:
        model: that is trained.
        batch: of the learner.
        wanted: keys that the losses read.
        replayed: whether truncated sampling must be replayed from ``sampling_mask``.
        name: of the learner's class, for messages.

    Raises:
        ConfigError: the batch lacks the sampling sets or the routes that must be replayed.
    """
    if replayed and "sampling_mask" not in batch.keys():
        raise ConfigError(
            "decoding.replay is true and the learner takes several optimiser steps a batch, "
            "but the batch has no sampling_mask: its rows are not the policy's own rollouts; "
            "use decoding=full, or one optimiser step a batch"
        )
    check_routes(model, batch, wanted)
    needed = {*wanted, *model.in_keys, "attention_mask"}
    if isinstance(model, Component):
        needed |= set(model.optional)
    needed |= sampled_keys(batch)
    return canonical(name, batch.select(*needed, strict=False), needed)


class OnPolicy:
    """Test whether a step's rows were sampled by the present policy, so log-probs are known.

    The rows with a gradient decide: their recorded log-probs must be the policy's own up to
    rounding. This detects another engine, another distribution, and weights that have moved.

    Args:
        model: the trained model.
        asked: keys that losses read.
        moved: whether the weights have changed since the rows came.
    """

    def __init__(self, model: object, asked: set[str], moved: bool) -> None:
        self.version: int | None = None
        outputs = asked.intersection(getattr(model, "out_keys", ()))
        # Under a filter the entropy of the full distribution is not known.
        if isinstance(model, Policy) and not moved and not model.decoding.truncates:
            self.version = model.version if outputs <= {"log_probs"} else None
        self.agrees = self.version is not None

    def compare(self, outputs: TensorDict) -> None:
        """Compare the recorded log-probs of rows with the model's own."""
        key = _recorded(outputs)
        if not self.agrees or key is None or "response_mask" not in outputs.keys():
            self.agrees = False
            return
        gap = (
            masked(outputs["log_probs"].detach() - outputs[key], outputs["response_mask"])
            .abs()
            .max()
        )
        self.agrees = bool(gap <= _ROUNDING)

    def knows(self, rows: TensorDict) -> bool:
        """Return whether the log-probs of these rows are known."""
        key = _recorded(rows)
        if not self.agrees or key is None or "policy_version" not in rows.keys():
            return False
        unlike = (rows["policy_version"] != self.version) | ~rows[key].isfinite()
        return not bool((unlike & rows["response_mask"]).any())


def recorded_outputs(rows: TensorDict) -> TensorDict:
    """Return rows with recorded log-probs as the model's; record their entropy.

    The entropy of ``policy/entropy`` is estimated from the sampled tokens: the mean of ``-log
    pi(a_t|s_t)`` over samples is the entropy.
    """
    key = _recorded(rows)
    assert key is not None
    mask = rows["response_mask"]
    log_probs = masked(rows[key], mask)
    record("policy/entropy", -log_probs, where=mask)
    return rows.copy().set("log_probs", log_probs)


def _recorded(rows: TensorDict) -> str | None:
    return next((key for key in _RECORDED if key in rows.keys()), None)
