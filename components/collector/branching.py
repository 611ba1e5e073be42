"""Branching rollouts (ARPO): episodes that fork at observations."""

from __future__ import annotations

from collections.abc import Callable

from tensordict import TensorDict
from torch import Tensor

from components.collector.episodes import EpisodeCollector
from rlcomp.arguments import PositiveInt
from rlcomp.episodes.branching import BranchingBudget
from rlcomp.episodes.player import Player
from rlcomp.errors import ConfigError
from rlcomp.metrics import record, record_total


class BranchingCollector(EpisodeCollector):
    """Collector of branching rollouts (ARPO): trees of ``group_size`` episodes per prompt.

    ``initial_rollouts`` episodes of each prompt start from the prompt. After an observation,
    ``branching`` gives the probability that a further episode goes on from there, with the ids of
    its parent and the state of its environment. The state comes from the environment's own
    ``fork``, or from a replay of the same actions with the same seed. A replay that differs is
    refused: the row has ``episode_error`` and no reward, and ``reward_check`` stops a run with
    many such rows. When all episodes have ended, the rest of ``group_size`` starts from the prompt
    (``fill``).

    A row is a whole episode. If branches depend on the state of an episode, an unweighted mean over
    rows has a biased gradient, even of the wrong sign. Weights ``branch_share`` remove the bias
    (``attribution=share``).

    The environments of all ``group_size`` episodes are reset at the start, including those that
    a branch later replaces.

    Reads and writes what :class:`components.collector.episodes.EpisodeCollector` does, and writes
    ``branch_depth``, ``branch_parent``, ``branch_share`` ``[B]``, ``turn_entropy`` ``[B, T]``.

    Records the same (``rollout/tokens`` counts each sampled token once) and
    ``branching/delta_entropy`` (over observations), ``branching/branches`` (share of rows that are
    branches) and ``branching/trained_tokens`` (response tokens of all rows).

    Args:
        player: the player of the episodes.
        group_size: episodes per prompt; ``M`` of the paper.
        branching: function from changes of entropy to probabilities of a branch.
        initial_rollouts: episodes that start from the prompt at first, ``N`` of the paper; if None,
            half of ``group_size`` (8 of 16 there) and at least one.
        fill: whether the rest of ``group_size`` starts from the prompt. With it the number of trees
            is random, and a mean over trees is a ratio of two random numbers. Without it groups
            differ in size, and each has ``initial_rollouts`` trees.

    Raises:
        ConfigError: there are more initial rollouts than episodes.

    Source:
        Dong et al. 2025 (ARPO), arXiv:2507.19849, section 3.2.
    """

    writes = (
        *EpisodeCollector.writes,
        "branch_depth",
        "branch_parent",
        "branch_share",
        "turn_entropy",
    )

    def __init__(
        self,
        *,
        player: Player,
        group_size: PositiveInt,
        branching: Callable[[Tensor], Tensor],
        initial_rollouts: PositiveInt | None = None,
        fill: bool = True,
    ) -> None:
        super().__init__(player=player, group_size=group_size)
        self.player: Player = player
        if initial_rollouts is None:
            initial_rollouts = max(group_size // 2, 1)
        if initial_rollouts > group_size:
            raise ConfigError(
                f"rollout.initial_rollouts is {initial_rollouts}, and group_size {group_size}: "
                "lower it, or raise group_size; branches take what is between them"
            )
        self.branching = branching
        self.initial_rollouts = initial_rollouts
        self.fill = fill

    def roll_out(self, batch: TensorDict, seed: int) -> TensorDict:
        """Roll out trees of episodes."""
        rows, delta = self.player.play_trees(
            batch,
            budget=BranchingBudget(
                self.group_size, self.initial_rollouts, self.fill, self.branching
            ),
            generator=self.generator,
            seed=seed,
        )
        record("branching/delta_entropy", delta)
        record("branching/branches", (rows["branch_parent"] >= 0).float())
        record_total("branching/trained_tokens", float(rows["response_mask"].sum()))
        return rows
