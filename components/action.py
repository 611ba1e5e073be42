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
from rlcomp.model.weight_snapshot import CopiedWeights


class Freeze(nn.Module):
    """Action that freezes a learner's parameters at the begin of a phase: no step, no decay.

    The clipped norm of the gradient is over the other parameters. Parameters that an earlier
    phase froze thaw first, so that ``parameters: null`` thaws all.

    Args:
        learner: the learner whose steps leave them as they are.
        parameters: a regular expression, searched in their names (``policy.model.``...); null
            freezes none.

    Raises:
        ConfigError: it is no regular expression, or it matches none or all of the parameters.
    """

    learner: FreezesParameters

    def __init__(
        self, *, learner: FreezesParameters, parameters: NonEmptyText | None = None
    ) -> None:
        super().__init__()
        # Not a submodule: the learner owns its tensors.
        object.__setattr__(self, "learner", learner)
        self.names = _found(list(learner.trained_names), parameters)

    def begin_phase(self) -> None:
        """Freeze exactly these parameters."""
        self.learner.freeze(self.names)


def _found(names: list[str], pattern: str | None) -> list[str]:
    if pattern is None:
        return []
    try:
        matching = [name for name in names if re.search(pattern, name)]
    except re.error as error:
        raise ConfigError(
            f"Freeze: parameters is {pattern!r}: {error}; write a regular expression"
        ) from error
    if not matching or len(matching) == len(names):
        which = "none" if not matching else "all, so that nothing would be learnt,"
        raise ConfigError(
            f"Freeze: parameters is {pattern!r}, which finds {which} of the learner's "
            f"{len(names)} parameters (such as {names[0]})"
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
    """Action that copies a policy's trainable weights at the begin of a phase.

    :class:`~components.action.Restore` reads the copy. If several phases name it, it
    holds the weights of the last one. It is part of the checkpoint.

    Args:
        policy: the policy whose weights are copied.
    """

    taken: Tensor

    def __init__(self, *, policy: Policy) -> None:
        super().__init__()
        self.copied = CopiedWeights(policy)
        self.register_buffer("taken", torch.zeros((), dtype=torch.bool))

    def begin_phase(self) -> None:
        """Take the copy."""
        self.copied.take()
        self.taken.fill_(True)


class Restore(nn.Module):
    """Action that restores a policy's weights from a snapshot.

    R1's second SFT starts from the base again. The optimiser keeps its moments, which belong to
    the old weights: name a :class:`~components.action.ResetOptimizer` beside it
    if the phase's learner has stepped before.

    Args:
        snapshot: the snapshot that an earlier phase has taken.

    Raises:
        FlowError: the phase begins and no snapshot was taken.
    """

    earlier: ClassVar[tuple[str, ...]] = ("snapshot",)

    snapshot: Snapshot

    def __init__(self, *, snapshot: Snapshot) -> None:
        super().__init__()
        # Not a submodule: the snapshot owns the copies.
        object.__setattr__(self, "snapshot", snapshot)

    def begin_phase(self) -> None:
        """Copy the weights back. The policy counts that as an update."""
        if not bool(self.snapshot.taken):
            raise FlowError(
                "Restore: the snapshot has taken no weights yet: let an earlier phase name it in "
                "its on_begin"
            )
        self.snapshot.copied.give_back()
