"""Episodes in the rows of a batch: their turns, first and last rows, and trees."""

from __future__ import annotations

import torch
from tensordict import TensorDict
from torch import Tensor

from rlcomp.functional.reduction import masked
from rlcomp.functional.returns import last_inside


def episode_index(batch: TensorDict) -> tuple[Tensor, Tensor]:
    """Return the episodes of a batch, by ``trajectory_id``; without it every row is an episode.

    Returns:
        The episode of each row, int64 ``[B]``, and the first row of each episode, int64 ``[E]``.

    Examples:
        >>> rows = TensorDict({"trajectory_id": torch.tensor([7, 4, 7])}, batch_size=[3])
        >>> episode_index(rows)
        (tensor([1, 0, 1]), tensor([1, 0]))
    """
    if "trajectory_id" not in batch.keys():
        rows = torch.arange(len(batch), device=batch.device)
        return rows, rows
    ids, episode = torch.unique(batch["trajectory_id"], return_inverse=True)
    rows = torch.arange(len(episode), device=ids.device)
    first = torch.full_like(ids, len(rows)).scatter_reduce(0, episode, rows, "amin")
    return episode, first


def first_row_mask(batch: TensorDict) -> Tensor:
    """Return the mask of the first rows of episodes, bool ``[B]``; each episode counts once."""
    episode, first = episode_index(batch)
    mask = torch.zeros(len(episode), dtype=torch.bool, device=episode.device)
    mask[first] = True
    return mask


def last_rows(batch: TensorDict) -> Tensor:
    """Return the row of each episode's last turn (``turn_id``), int64 ``[E]``."""
    episode, first = episode_index(batch)
    last, turns = first.tolist(), batch["turn_id"].amax(1).tolist()
    for row, number in enumerate(episode.tolist()):
        if turns[row] > turns[last[number]]:
            last[number] = row
    return torch.tensor(last, device=episode.device)


class TurnTable:
    """Table of episodes by turns, on the CPU; the rows of an episode are joined.

    Without ``trajectory_id`` every row is an episode. Without ``turn_id`` each response is one
    turn. ``E`` is the number of episodes, ``K`` the largest number of turns.

    Args:
        batch: holds ``response_mask`` ``[B, T]``, ``reward``, ``reward_valid``, ``group_id``
            ``[B]``, and optionally ``trajectory_id`` ``[B]``, ``turn_id``, ``turn_reward`` and
            ``anchor_id`` ``[B, T]``.

    Attributes:
        outcome: reward of each episode, shape ``[E]``.
        valid: mask of the episodes with a valid reward, bool, shape ``[E]``.
        group: group of each episode, int64, shape ``[E]``.
        exists: mask of the turns that each episode has, bool, shape ``[E, K]``.
        reward: reward of each turn by the environment, shape ``[E, K]``.
        anchor: id of the state before the turn, int64, shape ``[E, K]``; -1: unknown.
        turns: ``K``.
        turn: turn of each token, int64, shape ``[B, T]``; -1 outside ``response_mask``.
        episode: episode of each row, int64, shape ``[B]``.
    """

    def __init__(self, batch: TensorDict) -> None:
        mask = batch["response_mask"].cpu()
        self.device = batch["response_mask"].device
        self.episode, first = (each.cpu() for each in episode_index(batch))
        turn = (
            batch["turn_id"].cpu() if "turn_id" in batch.keys() else torch.zeros_like(mask).long()
        )
        self.turn = torch.where(mask, turn.clamp(min=0), -1)
        self.turns = max(1, int(self.turn.max()) + 1) if self.turn.numel() else 1
        self.outcome, self.valid, self.group = (
            batch[key].detach().cpu()[first] for key in ("reward", "reward_valid", "group_id")
        )
        self.exists = self._sum_by_turn(mask.to(self.outcome.dtype)) > 0
        reward = torch.zeros_like(mask, dtype=self.outcome.dtype)
        if "turn_reward" in batch.keys():
            reward = masked(batch["turn_reward"].detach().cpu().to(reward.dtype), mask)
        self.reward = self._sum_by_turn(reward)
        self.anchor = torch.full(self.exists.shape, -1)
        if "anchor_id" in batch.keys():
            anchor = batch["anchor_id"].cpu()
            self.anchor[self._token_episodes[mask], self.turn[mask]] = anchor[mask]

    @property
    def _token_episodes(self) -> Tensor:
        episodes: Tensor = self.episode[:, None].expand(self.turn.shape)
        return episodes

    def _sum_by_turn(self, values: Tensor) -> Tensor:
        inside = self.turn >= 0
        table: Tensor = values.new_zeros(
            int(self.episode.max()) + 1 if len(values) else 0, self.turns
        )
        return table.index_put(
            (self._token_episodes[inside], self.turn[inside]), values[inside], accumulate=True
        )

    @property
    def counted(self) -> Tensor:
        """Return the mask of the turns of valid episodes, bool, shape ``[E, K]``."""
        counted: Tensor = self.exists & self.valid[:, None].bool()
        return counted

    def rewards(self, *, outcome: bool) -> Tensor:
        """Return the rewards of turns, shape ``[E, K]``; 0 for invalid episodes.

        Args:
            outcome: True to add the episode's outcome to the reward of its last turn.
        """
        reward = self.reward
        if outcome:
            # The sum from the end counts the turns that are left: 1 at the last one.
            last = self.exists & (self.exists.flip(1).cumsum(1).flip(1) == 1)
            reward = reward + torch.where(last, self.outcome[:, None], torch.zeros_like(reward))
        return torch.where(self.counted, reward, torch.zeros_like(reward))

    def first_tokens(self, values: Tensor) -> Tensor:
        """Return values ``[B, T]`` at each turn's first token, shape ``[E, K]``.

        The value is 0 where an episode has no such turn.
        """
        before = torch.cat([torch.full_like(self.turn[:, :1], -1), self.turn[:, :-1]], 1)
        # The largest turn so far, so that a turn with a gap in it has only one first token.
        latest = torch.cummax(before, 1).values
        starts = (self.turn >= 0) & (self.turn > latest)
        return self._sum_by_turn(
            torch.where(starts, values.detach().cpu(), 0.0).to(self.outcome.dtype)
        )

    def last_tokens(self, values: Tensor) -> Tensor:
        """Return values ``[B, T]`` at each episode's last sampled token, shape ``[E]``.

        The value is 0 for an episode without sampled tokens.
        """
        turn = self.turn.amax(1)
        last = torch.full((len(self.exists),), -1).scatter_reduce(0, self.episode, turn, "amax")
        # An episode in several rows uses the row of its last turn.
        rows = (turn >= 0) & (turn == last[self.episode])
        last_values = last_inside(values.detach().cpu().to(self.outcome.dtype), self.turn >= 0)
        totals = torch.zeros(len(self.exists), dtype=self.outcome.dtype)
        return totals.index_add(0, self.episode[rows], last_values[rows])

    def any_row(self, marks: Tensor) -> Tensor:
        """Return the mask ``[E]`` of episodes with a row in the mask ``marks`` ``[B]``."""
        episodes = torch.zeros(len(self.exists), dtype=torch.bool)
        episodes[self.episode[marks.cpu()]] = True
        return episodes

    def to_tokens(self, table: Tensor) -> Tensor:
        """Return each token's value of its turn, ``[B, T]``, from a table ``[E, K]``.

        The value is 0 outside of turns. The result is on the device of the batch.
        """
        values = table[self._token_episodes, self.turn.clamp(min=0)]
        return torch.where(self.turn >= 0, values, torch.zeros_like(values)).to(self.device)


def roots(trajectory_id: Tensor, branch_parent: Tensor) -> Tensor:
    """Return for each row the root of its tree of episodes.

    Args:
        trajectory_id: shape ``[B]``, int64.
        branch_parent: episode that the row was branched from, int64, shape ``[B]``; -1: none.

    Returns:
        ``trajectory_id`` of the root, shape ``[B]``, int64. A parent that a filter has dropped
        counts as a root.

    Examples:
        >>> roots(torch.tensor([4, 5, 6, 7]), torch.tensor([-1, 4, 5, -1]))
        tensor([4, 4, 4, 7])
    """
    ids, parents = trajectory_id.tolist(), branch_parent.tolist()
    parent_of = dict(zip(ids, parents, strict=True))

    def root(row: int) -> int:
        while parent_of.get(row, -1) >= 0:
            row = parent_of[row]
        return row

    return torch.tensor([root(row) for row in ids], device=trajectory_id.device)
