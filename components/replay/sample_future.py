"""Geometric goal relabelling: steps with goals from their future."""

from __future__ import annotations

from typing import Annotated

import torch
from annotated_types import Interval
from tensordict import TensorDict

from components.replay.episode_rows import EpisodeRows
from components.replay.uniform import UniformReplay
from rlcomp.arguments import PositiveInt
from rlcomp.component import Component
from rlcomp.functional.hindsight import geometric_places
from rlcomp.seed import new_generator


class SampleFuture(Component):
    """Stage that draws steps with goals that their own episode achieved later.

    The goal of a step is the one achieved ``k`` steps later, ``p(k) ~ gamma^(k - 1)``, ``k >= 1``,
    within the episode. For a contrastive critic step and goal are a positive pair, and the goals of
    other rows are the negatives.

    Reads nothing. Writes ``observation``, ``action`` and ``desired_goal``.

    Args:
        replay: the replay to draw from.
        batch_size: rows per batch (``N``).
        gamma: discount, in (0, 1).

    Raises:
        ConfigError: the capacity of the replay is smaller than a batch.
        FlowError: the replay holds fewer rows.

    Source:
        Eysenbach et al. 2022, arXiv:2206.07568, section 4.1.
    """

    writes = ("observation", "action", "desired_goal")
    fresh = True

    def __init__(
        self,
        *,
        replay: UniformReplay,
        batch_size: PositiveInt = 256,
        gamma: Annotated[float, Interval(gt=0, lt=1)] = 0.99,
    ) -> None:
        super().__init__()
        replay.check_draws(batch_size)
        self.replay = replay
        self.rows = EpisodeRows(replay)
        self.batch_size = batch_size
        self.generator = new_generator()
        self.gamma = gamma

    def forward(self, batch: TensorDict) -> TensorDict:
        """Draw the rows and their goals."""
        drawn = self.rows.draw(self.batch_size, self.generator)
        uniform = torch.rand(self.batch_size, generator=self.generator)
        later = geometric_places(drawn.place, drawn.last, uniform, self.gamma)
        rows = drawn.steps.select("observation", "action")
        rows["desired_goal"] = drawn.achieved_after(later)
        return rows
