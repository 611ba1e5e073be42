"""Random steps of a replay with the rest of their episodes."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from tensordict import TensorDict
from torch import Tensor

from components.replay.uniform import UniformReplay
from rlcomp.errors import FlowError
from rlcomp.functional.off_policy import episode_order
from rlcomp.keys import nested

_NEEDED = ("trajectory", "step_count", "next.achieved_goal")


@dataclass(frozen=True)
class Drawn:
    """Rows of a replay in the order of their episodes, with the places of drawn rows.

    Attributes:
        rows: all rows of the replay, by place in it.
        order: rows sorted by episode, then by step.
        place: places of the drawn rows in that order, ``[N]``.
        last: place of the last step of each drawn row's episode, ``[N]``.
    """

    rows: TensorDict
    order: Tensor
    place: Tensor
    last: Tensor

    @property
    def steps(self) -> TensorDict:
        """A copy of the drawn steps, ``[N]``."""
        steps: TensorDict = self.rows[self.order[self.place]]
        return steps

    def achieved_after(self, later: Tensor) -> Tensor:
        """Return the goals achieved after the steps at these places, ``[N, G]``."""
        goals: Tensor = self.rows["next", "achieved_goal"][self.order[later]]
        return goals


class EpisodeRows:
    """Rows of a replay sorted by episode; sorted again when rows are added.

    An episode consists of the steps that the replay still holds.

    Args:
        replay: a replay with ``trajectory`` and ``step_count``.
    """

    def __init__(self, replay: UniformReplay) -> None:
        self.replay = replay
        self._order: tuple[int, Tensor, Tensor] | None = None

    def draw(self, count: int, generator: torch.Generator) -> Drawn:
        """Draw steps uniformly with replacement, each with the rest of its episode.

        Raises:
            FlowError: the replay holds fewer rows, or rows without an achieved goal.
        """
        rows = self.replay.stored()
        held = len(self.replay)
        if rows is None or held < count:
            raise FlowError(
                f"the replay holds {held} steps, batch_size is {count}: let it fill "
                "first (phases.warm_up.steps), or lower batch_size"
            )
        there = rows.keys(include_nested=True)
        if missing := [key for key in _NEEDED if nested(key) not in there]:
            raise FlowError(
                f"the replay holds no '{missing[0]}' of its steps, which goals are drawn from: "
                "begin with recipe=her or recipe=contrastive, or draw without goals "
                "(replay@sample=sample)"
            )
        order, last = self._episodes(rows)
        place = torch.randint(held, (count,), generator=generator)
        return Drawn(rows, order, place, last[place])

    def _episodes(self, rows: TensorDict) -> tuple[Tensor, Tensor]:
        written = self.replay.written
        if self._order is None or self._order[0] != written:
            order = episode_order(rows["trajectory"][:, 0], rows["step_count"][:, 0])
            self._order = (written, *order)
        return self._order[1:]
