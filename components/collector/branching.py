"""Collector of branching rollouts (ARPO): episodes that fork at observations."""

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
    ``branching`` gives the probability that another episode (a branch) continues from it. The
    branch has the token ids of its parent so far and the state of the parent's environment. The
    state comes from the environment's ``fork``, or from a replay of the same actions with the same
    seed. If a replay differs, the row has ``episode_error`` and no reward, and ``reward_check``
    stops a run with many such rows. When all episodes have ended, the remaining episodes of
    ``group_size`` start from the prompt (``fill``).

    A row is a whole episode. If the probability of a branch depends on the state of an episode, an
    unweighted mean over rows has a biased gradient, which may have the wrong sign. The weights
    ``branch_share`` remove the bias (``attribution=share``).

    The environments of all ``group_size`` episodes are reset at the start, including environments
    that a branch replaces later.

    Reads and writes the keys of :class:`components.collector.episodes.EpisodeCollector`, and writes
    ``branch_depth``, ``branch_parent``, ``branch_share`` ``[B]``, ``turn_entropy`` ``[B, T]``.

    Records the metrics of that class, in which ``rollout/tokens`` counts each sampled token once,
    and ``branching/delta_entropy`` (over observations), ``branching/branches`` (share of rows that
    are branches) and ``branching/trained_tokens`` (response tokens of all rows).

    Args:
        player: the player of the episodes.
        group_size: episodes per prompt, ``M`` in the paper.
        branching: function from changes of entropy to probabilities of a branch.
        initial_rollouts: episodes that start from the prompt at first, ``N`` in the paper. None:
            half of ``group_size``, as in the paper (8 of 16), and at least one.
        fill: whether the remaining episodes of ``group_size`` start from the prompt. If true, the
            number of trees is random, and a mean over trees is a ratio of two random numbers. If
            false, groups differ in size, and each has ``initial_rollouts`` trees.

    Raises:
        ConfigError: ``initial_rollouts`` is above ``group_size``.

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
                f"rollout.initial_rollouts is {initial_rollouts} and group_size {group_size}: "
                "lower initial_rollouts or raise group_size; their difference is the number of "
                "branches"
            )
        self.branching = branching
        self.initial_rollouts = initial_rollouts
        self.fill = fill

    def roll_out(self, batch: TensorDict, seed: int) -> TensorDict:
        """Return the rows of trees of episodes; see :meth:`EpisodeCollector.roll_out`."""
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
