"""Actions at the beginning of a phase."""

from __future__ import annotations

import re
from typing import ClassVar

import torch
from torch import Tensor, nn

from rlcomp.arguments import NonEmptyText
from rlcomp.errors import ConfigError, FlowError
from rlcomp.interfaces.policy import Policy
from rlcomp.interfaces.protocols import FreezesParameters, HasOptimizerState
from rlcomp.model.weight_snapshot import WeightSnapshot


class Freeze(nn.Module):
    """Action that freezes a learner's parameters at the beginning of a phase: no step, no decay.

    Gradient clipping uses the norm over the other parameters. The parameters that an earlier phase
    froze are trained again, so that ``parameters: null`` freezes no parameter.

    Args:
        learner: the learner that trains the parameters.
        parameters: a regular expression that is searched in the names of the parameters
            (``policy.model.``...); null: no parameter is frozen.

    Raises:
        ConfigError: ``parameters`` is no regular expression, or matches none or all of the
            parameters.
    """

    learner: FreezesParameters

    def __init__(
        self, *, learner: FreezesParameters, parameters: NonEmptyText | None = None
    ) -> None:
        super().__init__()
        # Not a submodule: the learner owns its tensors.
        object.__setattr__(self, "learner", learner)
        self.names = _find_names(list(learner.trained_names), parameters)

    def begin_phase(self) -> None:
        """Freeze the parameters, and no others."""
        self.learner.freeze(self.names)


def _find_names(names: list[str], pattern: str | None) -> list[str]:
    """Return the names that a pattern matches; refuse a pattern that matches none or all."""
    if pattern is None:
        return []
    try:
        matching = [name for name in names if re.search(pattern, name)]
    except re.error as error:
        raise ConfigError(
            f"Freeze: parameters is {pattern!r}: {error}; write a regular expression"
        ) from error
    if not matching or len(matching) == len(names):
        matches = "none" if not matching else "all"
        raise ConfigError(
            f"Freeze: parameters is {pattern!r}, which matches {matches} of the learner's "
            f"{len(names)} parameters (such as {names[0]}): write a pattern that matches some"
        )
    return matching


class ResetOptimizer(nn.Module):
    """Action that clears an optimiser's moments, as if its learner had never stepped.

    Args:
        learner: the learner whose optimiser is reset.
    """

    learner: HasOptimizerState

    def __init__(self, *, learner: HasOptimizerState) -> None:
        super().__init__()
        # Not a submodule: the learner owns its tensors.
        object.__setattr__(self, "learner", learner)

    def begin_phase(self) -> None:
        """Clear the state."""
        self.learner.forget_moments()


class Snapshot(nn.Module):
    """Action that copies a policy's trainable weights at the beginning of a phase.

    :class:`~components.action.Restore` reads the copy. If several phases name the snapshot, it
    holds the weights at the beginning of the latest of these phases. It is part of the checkpoint.

    Args:
        policy: the policy whose weights are copied.
    """

    taken: Tensor

    def __init__(self, *, policy: Policy) -> None:
        super().__init__()
        self.copied = WeightSnapshot(policy)
        self.register_buffer("taken", torch.zeros((), dtype=torch.bool))

    def begin_phase(self) -> None:
        """Take the copy."""
        self.copied.take()
        self.taken.fill_(True)


class Restore(nn.Module):
    """Action that restores a policy's weights from a snapshot.

    DeepSeek-R1's second SFT starts from the base model again. The optimiser keeps its moments,
    which belong to the old weights: name a :class:`~components.action.ResetOptimizer` too, if the
    phase's learner has stepped before.

    Args:
        snapshot: the snapshot of an earlier phase.

    Raises:
        FlowError: (at the beginning of the phase) the snapshot holds no weights.
    """

    earlier: ClassVar[tuple[str, ...]] = ("snapshot",)

    snapshot: Snapshot

    def __init__(self, *, snapshot: Snapshot) -> None:
        super().__init__()
        # Not a submodule: the snapshot owns the copies.
        object.__setattr__(self, "snapshot", snapshot)

    def begin_phase(self) -> None:
        """Copy the weights back; the policy counts the copy as an update."""
        if not bool(self.snapshot.taken):
            raise FlowError(
                "Restore: the snapshot holds no weights: name the snapshot in on_begin of an "
                "earlier phase"
            )
        self.snapshot.copied.give_back()
