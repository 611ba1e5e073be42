"""Collectors of episodes that fork: ARPO branches at observations, VinePPO before every turn."""

from __future__ import annotations

from collections.abc import Callable

import torch
from tensordict import TensorDict
from torch import Tensor

from components.collector.episodes import EpisodeCollector
from rlcomp.arguments import PositiveInt, Probability
from rlcomp.batch import decode_texts
from rlcomp.component import Component
from rlcomp.episodes.branching import BranchingBudget
from rlcomp.episodes.player import Continuations, Player
from rlcomp.errors import ConfigError, DataError
from rlcomp.functional.group_statistics import Groups
from rlcomp.interfaces.reward import without_failed
from rlcomp.metrics import record, record_total, recording


class BranchingCollector(EpisodeCollector):
    """Collector of branching rollouts (ARPO): trees with ``group_size`` episodes per prompt in all.

    ``initial_rollouts`` episodes of each prompt start from the prompt. After an observation,
    ``branching`` gives the probability that another episode (a branch) continues from it. The
    branch has the token ids of its parent so far and the state of the parent's environment, by the
    environment's ``fork`` or by a replay of the same actions with the same seed. If a replay
    differs, the row has ``episode_error`` and no reward, and ``reward_check`` stops a run with many
    such rows. When all episodes have ended, the remaining episodes of ``group_size`` start from the
    prompt (``fill``). The environments of all ``group_size`` episodes are reset at the start.

    A row is a whole episode. If the probability of a branch depends on the state of an episode, an
    unweighted mean over rows has a biased gradient. The weights ``branch_share`` remove the bias
    (``attribution=share``).

    Reads and writes the keys of :class:`components.collector.episodes.EpisodeCollector`, and writes
    ``branch_depth`` (tokens shared with the parent), ``branch_parent`` (its row, or -1),
    ``branch_share`` ``[B]``, and ``turn_entropy`` ``[B, T]``: at the first token of a turn the
    policy's entropy there, divided by ``log V``; 0 elsewhere.

    Records the metrics of that class, in which ``rollout/tokens`` counts each sampled token once,
    and ``branching/delta_entropy`` (change of this entropy since the first turn, over
    observations), ``branching/branches`` (share of rows that are branches) and
    ``branching/trained_tokens`` (response tokens of all rows).

    Args:
        group_size: episodes per prompt, ``M`` in the paper; at most so many without ``fill``.
        branching: function from changes of entropy to probabilities of a branch.
        initial_rollouts: episodes that start from the prompt at first, ``N`` in the paper. None:
            half of ``group_size`` as in the paper (8 of 16), but at least one.
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
                f"rollout.initial_rollouts is {initial_rollouts}, above group_size, {group_size}: "
                "lower it or raise group_size; their difference is the number of branches"
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


class VineCollector(EpisodeCollector):
    """Collector of VinePPO: ``continuations`` more episodes start before each turn.

    Their mean reward is the turn's value, ``V(s) = (1 / K) sum_k R_k``, for ``advantage=vine``. The
    environment is forked by its own ``fork``, or replayed with the same actions from the same seed.
    A continuation without a valid reward is left out, for example because its environment failed
    or its replay differed.

    Reads and writes the keys of :class:`components.collector.episodes.EpisodeCollector`, and writes
    ``turn_value`` ``[B, T]`` in reward units: on a turn's tokens, NaN if unknown; 0 elsewhere.

    Records the metrics of that class, and ``vine/tokens`` (sampled in continuations),
    ``vine/value`` (over turns) and ``vine/invalid_fraction``, the share of continuations without a
    valid reward.

    Args:
        group_size: episodes per prompt.
        reward: the reward of a continuation, the same as the reward of the episodes.
        continuations: number of continuations per turn, from the state before it (``K``).
        max_invalid_fraction: a larger share of invalid continuations stops the run.

    Raises:
        ConfigError: the reward compares an answer with others.
        DataError: too many continuations are invalid; the message names the first failure.

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
        """Return the rows of episodes with the value of each turn."""
        rows, branches = self.player.play_and_continue(
            batch,
            group_size=self.group_size,
            continuations=self.continuations,
            generator=self.generator,
            seed=seed,
        )
        turn = rows["turn_id"]
        value = torch.full((len(turn), max(1, int(turn.max()) + 1)), torch.nan, device=turn.device)
        if branches is not None:
            value[branches.row, branches.turn] = self._values(branches)
        token_value = value.gather(1, turn.clamp(min=0))
        rows["turn_value"] = torch.where(turn >= 0, token_value, torch.zeros_like(token_value))
        return rows

    def _values(self, branches: Continuations) -> Tensor:
        """Return, per continuation, the mean reward of all continuations from its state, or NaN."""
        with recording():  # the reward's metrics are of the episodes only
            rewards = self.reward(branches.rows.copy())
        valid = without_failed(branches.rows, rewards["reward_valid"])
        groups = Groups(rewards["reward"], branches.rows["group_id"], valid)
        mean = groups.total(groups.reward) / groups.count
        new_tokens = branches.rows["turn_id"] >= branches.turn[:, None]
        record_total("vine/tokens", float(new_tokens.sum()))
        record("vine/value", mean, where=groups.count > 0)
        record("vine/invalid_fraction", (~valid).float())
        self._check_valid(branches.rows, valid)
        return mean.to(valid.device)

    def _check_valid(self, rows: TensorDict, valid: Tensor) -> None:
        share = float((~valid).float().mean())
        if share > self.max_invalid_fraction:
            first = int((~valid).nonzero()[0])
            reason = decode_texts(rows["episode_error"])[first] or "its reward is not valid"
            raise DataError(
                f"{share:.0%} of {len(valid)} continuations are invalid; reason of the first: "
                f"{reason}; fix its cause, or raise rollout.max_invalid_fraction, "
                f"{self.max_invalid_fraction}"
            )
