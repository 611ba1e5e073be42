"""Split of an optimiser step into rows with and without a gradient.

A row whose advantage is 0 at every token adds 0 to the gradient of a policy loss. It only enters
denominators (``Loss.prepare``) and metrics. The metrics need its log-probs. On the first step after
sampling these are the log-probs that the sampler recorded; later they need a forward pass.
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

# Largest difference (nats) between recorded log-probs and the policy's own. It is ten times the
# rounding error of a float32 forward pass.
_TOLERANCE = 1e-4
# Keys of recorded log-probs of the policy; the first one in a batch is used.
_RECORDED_LOG_PROBS = ("old_log_probs", "rollout_log_probs")
# Keys that describe how a batch was sampled.
_SAMPLING_KEYS = (*_RECORDED_LOG_PROBS, "policy_version")


def sampling_keys(batch: TensorDict) -> set[str]:
    """Return the keys of a batch that describe how its tokens were sampled."""
    mask = batch.get("response_mask", None)
    return {
        key
        for key in _SAMPLING_KEYS
        if mask is not None and key in batch.keys() and batch[key].shape == mask.shape
    }


def gradient_rows(losses: Iterable[Loss], rows: TensorDict, unit_rows: int) -> Tensor | None:
    """Return a mask of the rows with a gradient; None: all rows may have one.

    Args:
        losses: losses with :meth:`rlcomp.interfaces.loss.Loss.gradient_rows`.
        rows: rows of an optimiser step, ``[B]``.
        unit_rows: number of adjacent rows of a unit (a pair: 2).

    Returns:
        Mask ``[B]``, bool; true for at least one unit, because an optimiser applies no weight decay
        to parameters without a gradient.
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


def select_rows(
    model: TensorDictModuleBase,
    batch: TensorDict,
    loss_keys: Set[str],
    *,
    replays_sampling: bool,
    name: str,
) -> TensorDict:
    """Return the rows, checked and canonical, with the keys that model and losses read.

    Args:
        model: the trained model.
        batch: batch of the learner.
        loss_keys: keys that the losses read.
        replays_sampling: whether the model replays truncated sampling from ``sampling_mask``.
        name: name of the learner's class, for messages.

    Raises:
        ConfigError: the batch lacks the sampling sets or the routes to replay.
    """
    if replays_sampling and "sampling_mask" not in batch.keys():
        raise ConfigError(
            "decoding.replay is true and the learner takes several optimiser steps a batch, "
            "but the batch has no sampling_mask: its rows are not the policy's own rollouts; "
            "use decoding=full, or one optimiser step a batch"
        )
    check_routes(model, batch, loss_keys)
    keys = {*loss_keys, *model.in_keys, "attention_mask"}
    if isinstance(model, Component):
        keys |= set(model.optional)
    keys |= sampling_keys(batch)
    return canonical(name, batch.select(*keys, strict=False), keys)


class OnPolicyTest:
    """Test whether the recorded log-probs of a step's rows equal the current policy's.

    The test compares the rows with a gradient: their recorded log-probs must equal the policy's own
    up to rounding. So it detects another engine, another distribution, and changed weights.

    Args:
        model: the trained model.
        loss_keys: keys that the losses read.
        weights_changed: whether the weights have changed since the learner got the rows.
    """

    def __init__(self, model: object, loss_keys: set[str], weights_changed: bool) -> None:
        self.version: int | None = None
        outputs = loss_keys.intersection(getattr(model, "out_keys", ()))
        # Only log-probs are recorded: a loss that reads another output needs a forward pass.
        # Truncated sampling does not give the entropy of the full distribution.
        if isinstance(model, Policy) and not weights_changed and not model.decoding.truncates:
            self.version = model.version if outputs <= {"log_probs"} else None
        self.agrees = self.version is not None

    def compare(self, outputs: TensorDict) -> None:
        """Compare the recorded log-probs of rows with the model's outputs; store the result."""
        key = _recorded_key(outputs)
        if not self.agrees or key is None or "response_mask" not in outputs.keys():
            self.agrees = False
            return
        gap = outputs["log_probs"].detach() - outputs[key]
        difference = masked(gap, outputs["response_mask"]).abs().max()
        self.agrees = bool(difference <= _TOLERANCE)

    def has_recorded_log_probs(self, rows: TensorDict) -> bool:
        """Return whether the recorded log-probs of these rows are the current policy's."""
        key = _recorded_key(rows)
        if not self.agrees or key is None or "policy_version" not in rows.keys():
            return False
        differs = (rows["policy_version"] != self.version) | ~rows[key].isfinite()
        return not bool((differs & rows["response_mask"]).any())


def recorded_outputs(rows: TensorDict) -> TensorDict:
    """Return rows with the recorded log-probs as ``log_probs``; record ``policy/entropy``.

    The entropy is estimated as the mean of ``-log pi(a_t|s_t)`` over the sampled tokens.
    """
    key = _recorded_key(rows)
    assert key is not None
    mask = rows["response_mask"]
    log_probs = masked(rows[key], mask)
    record("policy/entropy", -log_probs, where=mask)
    return rows.copy().set("log_probs", log_probs)


def _recorded_key(rows: TensorDict) -> str | None:
    """Return the key of the recorded log-probs that are used; None if there are none."""
    return next((key for key in _RECORDED_LOG_PROBS if key in rows.keys()), None)
