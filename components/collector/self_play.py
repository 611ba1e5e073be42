"""Self-play: matches between the seats of a game."""

from __future__ import annotations

import torch
from tensordict import TensorDict

from components.collector.episodes import EpisodeCollector
from rlcomp.arguments import PositiveInt
from rlcomp.episodes.seated_player import SeatedPlayer
from rlcomp.functional.masked import masked
from rlcomp.metrics import record


class SelfPlayCollector(EpisodeCollector):
    """Collector of self-play: ``group_size`` matches per prompt, a row for each seat that moved.

    Each seat reads its own transcript. The rows of a prompt and a seat are one group
    (``group_id``), so that a baseline compares a player with itself in the same role. Each row is
    a trajectory. The seats of a match share ``match_id``.

    Reads and writes what :class:`components.collector.episodes.EpisodeCollector` does, and writes
    ``seat`` and ``match_id`` ``[B]``. Records the same, over the rows of all seats, and
    ``self_play/reward_<seat>``, the environment's mean reward of a seat.

    Args:
        player: the player of the matches.
        group_size: matches per prompt.
    """

    writes = (*EpisodeCollector.writes, "seat", "match_id")

    def __init__(self, *, player: SeatedPlayer, group_size: PositiveInt) -> None:
        super().__init__(player=player, group_size=group_size)

    def forward(self, batch: TensorDict) -> TensorDict:
        """Play the matches."""
        rows = super().forward(batch)
        paid = masked(rows["turn_reward"], rows["response_mask"]).sum(1)
        for seat in torch.unique(rows["seat"]).tolist():
            record(f"self_play/reward_{seat}", paid, where=rows["seat"] == seat)
        return rows
