"""VinePPO rollouts: episodes with the Monte-Carlo value of the state before each turn."""

from __future__ import annotations

import torch
from tensordict import TensorDict
from torch import Tensor

from components.collector.episodes import EpisodeCollector
from rlcomp.arguments import PositiveInt, Probability
from rlcomp.batch import decode_texts
from rlcomp.component import Component
from rlcomp.episodes.player import Continued, Player
from rlcomp.errors import ConfigError, DataError
from rlcomp.functional.group_statistics import Groups
from rlcomp.interfaces.reward import without_failed
from rlcomp.metrics import record, record_total, recording


class VineCollector(EpisodeCollector):
    """Collector of VinePPO: ``continuations`` more episodes start before each turn.

    Their mean reward is the turn's value, ``V(s) = (1 / K) sum_k R_k``, for ``advantage=vine``. The
    session of the policy is forked. The environment is forked by its own ``fork``, or replayed
    with the same actions from the same seed. The episodes are those of ``collector=episodes``.

    A continuation without a valid reward is left out, for example because its environment failed
    or its replay differed.

    Reads and writes what :class:`components.collector.episodes.EpisodeCollector` does, and writes
    ``turn_value`` ``[B, T]`` in reward units: on a turn's tokens, NaN if unknown; 0 elsewhere.

    Records the same, and ``vine/tokens`` (sampled in continuations), ``vine/value`` (over turns)
    and ``vine/invalid_fraction``, the share of continuations that are left out.

    Args:
        player: the player of the episodes.
        group_size: episodes per prompt.
        reward: the reward of a continuation, the same as that of the episodes.
        continuations: number of continuations from before each turn (``K``).
        max_invalid_fraction: a larger share of invalid continuations stops the run.

    Raises:
        ConfigError: the reward compares an answer with others.
        DataError: too many continuations are invalid; names the first failure.

    Source:
        Kazemnejad et al. 2024, arXiv:2410.01679 (VinePPO), section 4.
    """

    keys = {
        "turn_value": ("B T", "float", "mean reward of episodes that continue from before the turn")
    }
    writes = (*EpisodeCollector.writes, "turn_value")
    must_reach = ("turn_value",)
    runs = ("reward",)
    contained = True
    supplies = (*EpisodeCollector.writes,)

    def __init__(
        self,
        *,
        player: Player,
        group_size: PositiveInt,
        reward: Component,
        continuations: PositiveInt = 4,
        max_invalid_fraction: Probability = 0.2,
    ) -> None:
        super().__init__(player=player, group_size=group_size)
        self.player: Player = player
        if reward.min_group_size > 1:
            raise ConfigError(
                f"rollout.reward is a {type(reward).__name__}, which judges an answer by the "
                "others of its group: set rollout.reward to a verifier"
            )
        self.reward = reward
        self.continuations = continuations
        self.max_invalid_fraction = max_invalid_fraction

    def roll_out(self, batch: TensorDict, seed: int) -> TensorDict:
        """Roll out episodes and the continuations before each turn."""
        rows, continued = self.player.play_and_continue(
            batch,
            group_size=self.group_size,
            continuations=self.continuations,
            generator=self.generator,
            seed=seed,
        )
        turn = rows["turn_id"]
        value = torch.full((len(turn), max(1, int(turn.max()) + 1)), torch.nan, device=turn.device)
        if continued is not None:
            value[continued.of, continued.turn] = self._values(continued)
        spread = value.gather(1, turn.clamp(min=0))
        rows["turn_value"] = torch.where(turn >= 0, spread, torch.zeros_like(spread))
        return rows

    def _values(self, continued: Continued) -> Tensor:
        """Return for each continuation the mean reward of those from the same place, or NaN."""
        with recording():  # the reward records metrics of the episodes only
            judged = self.reward(continued.rows.copy())
        valid = without_failed(continued.rows, judged["reward_valid"])
        groups = Groups(judged["reward"], continued.rows["group_id"], valid)
        mean = groups.total(groups.reward) / groups.count
        own = continued.rows["turn_id"] >= continued.turn[:, None]
        record_total("vine/tokens", float(own.sum()))
        record("vine/value", mean, where=groups.count > 0)
        record("vine/invalid_fraction", (~valid).float())
        self._limit(continued.rows, valid)
        return mean.to(valid.device)

    def _limit(self, rows: TensorDict, valid: Tensor) -> None:
        share = float((~valid).float().mean())
        if share > self.max_invalid_fraction:
            first = int((~valid).nonzero()[0])
            why = decode_texts(rows["episode_error"])[first] or "its reward is not valid"
            raise DataError(
                f"{share:.0%} of {len(valid)} continuations are invalid, the first one because: "
                f"{why}; raise rollout.max_invalid_fraction ({self.max_invalid_fraction}) if so "
                "many may be left out"
            )
