"""Weights put back to a snapshot."""

from __future__ import annotations

from typing import ClassVar

from torch import nn

from components.action.snapshot import Snapshot
from rlcomp.errors import FlowError


class Restore(nn.Module):
    """Put a policy's weights back to a snapshot: R1's second SFT starts from the base again.

    The moments of an optimiser belong to the weights that are left: name a
    :class:`~components.action.reset_optimizer.ResetOptimizer` beside it where the phase's learner
    has stepped before.

    Args:
        snapshot: what an earlier phase has taken.

    Raises:
        FlowError: when the phase begins, if none has.
    """

    earlier: ClassVar[tuple[str, ...]] = ("snapshot",)

    snapshot: Snapshot

    def __init__(self, *, snapshot: Snapshot) -> None:
        super().__init__()
        # Past nn.Module: the copies belong to the snapshot.
        object.__setattr__(self, "snapshot", snapshot)

    def begin_phase(self) -> None:
        """Copy the weights back; the policy counts it as an update."""
        if not bool(self.snapshot.taken):
            raise FlowError(
                "Restore: the snapshot has taken no weights yet: let an earlier phase name it in "
                "its on_begin"
            )
        self.snapshot.copied.give_back()
