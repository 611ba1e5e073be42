"""Restore of weights from a snapshot."""

from __future__ import annotations

from typing import ClassVar

from torch import nn

from components.action.snapshot import Snapshot
from rlcomp.errors import FlowError


class Restore(nn.Module):
    """Action that restores a policy's weights from a snapshot.

    R1's second SFT starts from the base again. The optimiser keeps its moments, which belong to
    the old weights: name a :class:`~components.action.reset_optimizer.ResetOptimizer` beside it
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
