"""Steps of a replay, drawn with the rest of their episodes."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from tensordict import TensorDict
from torch import Tensor

from components.replay.uniform import UniformReplay
from rlcomp.errors import FlowError
from rlcomp.functional.hindsight import episode_order
from rlcomp.keys import nested

_NEEDED = ("trajectory", "step_count", "next.achieved_goal")


@dataclass(frozen=True)
class Drawn:
    """Rows of a replay in the order of their episodes, and which of them were drawn.

    Attributes:
        rows: all of the replay, by place in it.
        order: rows sorted by episode, then by step.
        place: the drawn ones' places in that order, ``[N]``.
        last: the place of the last step of each one's episode, ``[N]``.
    """

    rows: TensorDict
    order: Tensor
    place: Tensor
    last: Tensor

    @property
    def steps(self) -> TensorDict:
        """The drawn steps, a copy, ``[N]``."""
        found: TensorDict = self.rows[self.order[self.place]]
        return found

    def achieved_after(self, later: Tensor) -> Tensor:
        """What was achieved after the steps at these places, ``[N, G]``."""
        found: Tensor = self.rows["next", "achieved_goal"][self.order[later]]
        return found


class EpisodeRows:
    """The rows of a replay in the order of their episodes, which is made anew when rows are added.

    An episode is what the replay holds of it.

    Args:
        replay: with ``trajectory`` and ``step_count``.
    """

    def __init__(self, replay: UniformReplay) -> None:
        self.replay = replay
        self._order: tuple[int, Tensor, Tensor] | None = None

    def draw(self, count: int, generator: torch.Generator) -> Drawn:
        """Draw so many steps uniformly with replacement, each with what follows it.

        Raises:
            FlowError: the replay holds fewer rows, or not what was achieved by each.
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
            found = episode_order(rows["trajectory"][:, 0], rows["step_count"][:, 0])
            self._order = (written, *found)
        return self._order[1:]
