"""Samples of labelled states."""

from __future__ import annotations

from typing import ClassVar

from components.replay.extend_labelled import ExtendLabelled
from components.replay.sample import Sample
from components.replay.uniform import UniformReplay
from rlcomp.arguments import PositiveInt


class SampleLabelled(Sample):
    """Stage that draws a new batch of states with an expert's actions.

    Reads nothing. Writes ``observation`` and ``expert_action``.

    Args:
        replay: the replay to draw from.
        batch_size: rows per batch (``N``).

    Raises:
        FlowError: the replay holds fewer rows.
    """

    writes: ClassVar[tuple[str, ...]] = (*ExtendLabelled.reads,)
    may_write: ClassVar[tuple[str, ...]] = ()

    def __init__(self, *, replay: UniformReplay, batch_size: PositiveInt = 64) -> None:
        super().__init__(replay=replay, batch_size=batch_size)
