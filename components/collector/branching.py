"""Branching rollouts (ARPO): episodes that fork at observations."""

from __future__ import annotations

from collections.abc import Callable

from tensordict import TensorDict
from torch import Tensor

from components.collector.episodes import EpisodeCollector
from rlcomp.arguments import PositiveInt
from rlcomp.episodes.branching import Budget
from rlcomp.episodes.player import Player
from rlcomp.errors import ConfigError
from rlcomp.metrics import record, record_total


class BranchingCollector(EpisodeCollector):
    """Branching rollouts (ARPO): trees of episodes, ``group_size`` of each prompt.

    ``initial_rollouts`` episodes of each prompt begin by themselves. Where one has read an
    observation, ``branching`` says how likely a further episode goes on from there, with the ids of
    its parent and the state of its environment: by the environment's own ``fork``, or played again
    from the same seed with the same actions; one that says something else then is refused: the row
    has it in ``episode_error`` and no reward, and ``reward_check`` stops a run with many of them.
    When all have ended, what is left of ``group_size`` begins by itself (``fill``).

    A row is a whole episode. With branches by the state of an episode an unweighted mean over rows
    has a biased gradient, whose sign may be wrong; with ``branch_share`` it has not
    (``attribution=share``).

    The environments of all ``group_size`` episodes are reset at the start, those whose place a
    branch then takes as well.

    Reads and writes what :class:`components.collector.episodes.EpisodeCollector` does, and writes
    ``branch_depth``, ``branch_parent``, ``branch_share`` ``[B]``, ``turn_entropy`` ``[B, T]``.

    Records the same, where ``rollout/tokens`` counts what was sampled, each token once; and
    ``branching/delta_entropy`` (over observations), ``branching/branches`` (share of rows that were
    branched) and ``branching/trained_tokens`` (response tokens of all rows).

    Args:
        player: plays the episodes.
        group_size: episodes per prompt; ``M`` of the paper.
        branching: from changes of entropy to probabilities of a branch.
        initial_rollouts: episodes that begin by themselves at first, ``N`` of the paper; half of
            ``group_size`` (8 of 16 there) if None, and at least one.
        fill: whether what is left of ``group_size`` begins by itself. Then the number of trees
            depends on what was drawn, and a mean over trees is a ratio of two random numbers;
            without it groups differ in size, and their number of trees is ``initial_rollouts``.

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
        """Roll out trees."""
        rows, delta = self.player.play_trees(
            batch,
            budget=Budget(self.group_size, self.initial_rollouts, self.fill, self.branching),
            generator=self.generator,
            seed=seed,
        )
        record("branching/delta_entropy", delta)
        record("branching/branches", (rows["branch_parent"] >= 0).float())
        record_total("branching/trained_tokens", float(rows["response_mask"].sum()))
        return rows
