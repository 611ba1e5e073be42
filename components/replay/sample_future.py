"""Steps with goals from their discounted future."""

from __future__ import annotations

from typing import Annotated

import torch
from annotated_types import Interval
from tensordict import TensorDict

from components.replay.sample_by_episode import SampleByEpisode
from components.replay.uniform import UniformReplay
from rlcomp.arguments import PositiveInt
from rlcomp.functional.hindsight import geometric_places


class SampleFuture(SampleByEpisode):
    """A batch of steps, each asking for what its own episode achieved later.

    The goal of a step is what was achieved ``k`` steps on, ``p(k) ~ gamma^(k - 1)``, ``k >= 1``,
    cut where the episode ends: a positive pair for a contrastive critic, and those of other rows
    are its negatives.

    Reads nothing. Writes ``observation``, ``action`` and ``desired_goal``.

    Args:
        replay: what is drawn from.
        batch_size: rows per batch (``N``).
        gamma: discount, in (0, 1).

    Raises:
        FlowError: the replay holds fewer rows.

    Source:
        Eysenbach et al. 2022, arXiv:2206.07568, section 4.1.
    """

    writes = ("observation", "action", "desired_goal")

    def __init__(
        self,
        *,
        replay: UniformReplay,
        batch_size: PositiveInt,
        gamma: Annotated[float, Interval(gt=0, lt=1)],
    ) -> None:
        super().__init__(replay=replay, batch_size=batch_size)
        self.gamma = gamma

    def forward(self, batch: TensorDict) -> TensorDict:
        """Draw the rows and their goals."""
        drawn = self.draw()
        uniform = torch.rand(self.batch_size, generator=self.generator)
        later = geometric_places(drawn.place, drawn.last, uniform, self.gamma)
        rows = drawn.steps.select("observation", "action")
        rows["desired_goal"] = drawn.achieved_after(later)
        return rows
