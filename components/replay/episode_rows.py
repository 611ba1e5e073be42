"""Random steps of a replay with the later steps of their episodes."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from tensordict import TensorDict
from torch import Tensor

from components.replay.uniform import UniformReplay
from rlcomp.errors import FlowError
from rlcomp.functional.goal_conditioned import episode_order
from rlcomp.keys import nested

_REQUIRED_KEYS = ("trajectory", "step_count", "next.achieved_goal")


@dataclass(frozen=True)
class ReplayDraw:
    """Rows of a replay in the order of their episodes, with the positions of drawn rows.

    Attributes:
        rows: all rows of the replay, in the replay's order, ``[R]``.
        order: indices of the rows, sorted by episode and then by step, ``[R]``.
        place: positions of the drawn rows in ``order``, ``[N]``.
        last: position in ``order`` of the last step of each drawn row's episode, ``[N]``.
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
        """Return the goals achieved after the steps at these positions in ``order``, ``[N, G]``."""
        goals: Tensor = self.rows["next", "achieved_goal"][self.order[later]]
        return goals


class EpisodeRows:
    """Rows of a replay sorted by episode; new rows cause a new sort.

    An episode consists of its steps that the replay still holds.

    Args:
        replay: a replay with ``trajectory`` and ``step_count``.
    """

    def __init__(self, replay: UniformReplay) -> None:
        self.replay = replay
        self._order: tuple[int, Tensor, Tensor] | None = None

    def draw(self, count: int, generator: torch.Generator) -> ReplayDraw:
        """Draw ``count`` steps uniformly with replacement.

        Raises:
            FlowError: the replay holds fewer than ``count`` rows, or rows without achieved goals.
        """
        rows = self.replay.stored()
        size = len(self.replay)
        if rows is None or size < count:
            raise FlowError(
                f"the replay holds {size} steps, batch_size is {count}: let it fill "
                "first (phases.warm_up.steps), or lower batch_size"
            )
        keys = rows.keys(include_nested=True)
        if missing := [key for key in _REQUIRED_KEYS if nested(key) not in keys]:
            raise FlowError(
                f"the replay has no '{missing[0]}' of its steps, which draws of goals need: "
                "begin with recipe=her or recipe=contrastive, or draw without goals "
                "(replay@sample=sample)"
            )
        order, last = self._episodes(rows)
        place = torch.randint(size, (count,), generator=generator)
        return ReplayDraw(rows, order, place, last[place])

    def _episodes(self, rows: TensorDict) -> tuple[Tensor, Tensor]:
        """Return ``order`` and the position of the last step of each row's episode."""
        write_count = self.replay.written
        if self._order is None or self._order[0] != write_count:
            order = episode_order(rows["trajectory"][:, 0], rows["step_count"][:, 0])
            self._order = (write_count, *order)
        return self._order[1:]
