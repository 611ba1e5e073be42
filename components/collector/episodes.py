"""Collectors of episodes between policy and environment, and of self-play matches."""

from __future__ import annotations

import torch
from tensordict import TensorDict
from torch import Tensor

from rlcomp.arguments import PositiveInt
from rlcomp.batch import decode_texts
from rlcomp.component import Component
from rlcomp.episodes.match import MatchPlayer
from rlcomp.episodes.player import Plays
from rlcomp.functional.reduction import masked
from rlcomp.interfaces.stages import Collector
from rlcomp.interfaces.turns import episode_index
from rlcomp.metrics import record, record_total
from rlcomp.seed import named_seed, new_generator, next_request


class EpisodeCollector(Collector):
    """Collector of ``group_size`` episodes per prompt between the policy and an environment.

    A row holds a whole episode: the prompt, then turns of the policy and observations.
    ``response_mask`` marks the tokens that the policy sampled. ``response`` is the text of the last
    turn. An episode has several rows if an outside agent (``player=traces``) rewrites its history.

    ``truncated`` marks an episode if its last turn reached ``max_new_tokens``, if it did not end
    within ``max_turns``, or if its context was full. ``episode_error`` holds the error message of a
    failed environment.

    Reads ``policy_prompt`` ``[P, W]`` if present, else ``prompt`` ``[P, W]``; and optionally
    ``columns`` and ``answer`` for the environment. Writes a new batch of at least
    ``P * group_size`` rows with every collector's keys, and ``trajectory_id`` ``[B]``, ``turn_id``,
    ``turn_reward``, ``anchor_id`` ``[B, T]``, ``transcript``, ``episode_error`` ``[B, W]``,
    ``facts``.

    Records for each episode ``rollout/length`` (sampled tokens), ``rollout/truncated``,
    ``episode/turns``, ``episode/environment_reward`` (the sum over its turns), ``episode/failed``,
    ``episode/observed`` (tokens after the first sampled token of a row that were not sampled) and
    each fact as ``facts/<name>``, without NaN; and ``rollout/tokens``, the sampled tokens of all.

    Args:
        group_size: episodes per prompt.
    """

    optional = (*Collector.optional, "columns", "answer")
    writes = (
        *Collector.writes,
        "trajectory_id",
        "turn_id",
        "turn_reward",
        *("anchor_id", "transcript", "episode_error", "facts"),
    )

    def __init__(self, *, player: Plays, group_size: PositiveInt) -> None:
        super().__init__()
        self.policy = player.policy
        self.player = player
        self.group_size = group_size
        self.generator = new_generator()

    def forward(self, batch: TensorDict) -> TensorDict:
        """Return the rows of new episodes, and record their metrics."""
        seed = named_seed(self.generator.initial_seed(), "environments")
        rows = self.roll_out(batch, seed)
        _record(rows)
        return rows

    def roll_out(self, batch: TensorDict, seed: int) -> TensorDict:
        """Return the rows of episodes; ``seed`` is the seed of the environments."""
        group_size, generator = self.group_size, self.generator
        return self.player.play(
            batch, group_size=group_size, decoding=None, generator=generator, seed=seed
        )


def sampled_mask(rows: TensorDict) -> Tensor:
    """Return a mask ``[B, T]`` of the response tokens that a row does not share with its parent."""
    mask: Tensor = rows["response_mask"]
    if "branch_depth" not in rows.keys():
        return mask
    position = torch.arange(mask.shape[1], device=mask.device)
    is_new: Tensor = position >= rows["branch_depth"][:, None]
    return mask & is_new


def _record(rows: TensorDict) -> None:
    """Record the metrics of episodes; an episode of several rows counts once."""
    episode, first = episode_index(rows)

    def sum_by_episode(values: Tensor) -> Tensor:
        return values.new_zeros(len(first)).index_add(0, episode, values)

    lengths = sum_by_episode(rows["response_mask"].sum(1))
    failed = torch.tensor([bool(text) for text in decode_texts(rows["episode_error"][first])])
    observed = rows["attention_mask"] & ~rows["response_mask"]
    observed &= rows["response_mask"].cumsum(1) > 0
    row_turns = rows["turn_id"].amax(1) + 1
    turns = row_turns.new_zeros(len(first)).scatter_reduce(0, episode, row_turns, "amax")
    record("rollout/length", lengths)
    record("rollout/truncated", sum_by_episode(rows["truncated"].int()) > 0)
    record_total("rollout/tokens", float(sampled_mask(rows).sum()))
    record("episode/turns", turns.float())
    record("episode/environment_reward", sum_by_episode(rows["turn_reward"].sum(1)))
    record("episode/failed", failed.float())
    record("episode/observed", sum_by_episode(observed.sum(1)))
    for name, fact in rows["facts"].items():
        record(f"facts/{name}", fact[first], where=~fact[first].isnan())


class SelfPlayCollector(EpisodeCollector):
    """Collector of self-play: ``group_size`` matches per prompt, a row for each seat that moved.

    A seat is the role of a player in a match, with its own transcript. The rows of one prompt and
    seat are a group (``group_id``), so that a baseline compares players in the same role. Each row
    is a trajectory. The rows of a match have one ``match_id``. A failed match has a row for every
    seat, with ``episode_error``. A turn that reaches
    ``max_new_tokens`` is a move, and does not mark the row as ``truncated``.

    Reads and writes the keys of :class:`components.collector.episodes.EpisodeCollector`, and writes
    ``seat`` and ``match_id`` ``[B]``. Records the metrics of that class over the rows of all seats,
    and ``self_play/reward_<seat>``, the environment's mean reward of a seat.

    Args:
        group_size: matches per prompt.
    """

    writes = (*EpisodeCollector.writes, "seat", "match_id")

    def __init__(self, *, player: MatchPlayer, group_size: PositiveInt) -> None:
        super().__init__(player=player, group_size=group_size)

    def forward(self, batch: TensorDict) -> TensorDict:
        """Return the rows of new matches, and record their metrics."""
        rows = super().forward(batch)
        reward = masked(rows["turn_reward"], rows["response_mask"]).sum(1)
        for seat in torch.unique(rows["seat"]).tolist():
            record(f"self_play/reward_{seat}", reward, where=rows["seat"] == seat)
        return rows


class ShuffledAnchors(Component):
    """Control that permutes ``anchor_id`` over the turns of each group.

    As many turns as before share an anchor, but their states differ. A gain by credit of states
    (``advantage=gigpo``) that remains with this control is not due to the states.

    Reads and writes the keys of the inner collector; permutes ``anchor_id`` ``[B, T]`` by
    ``turn_id`` ``[B, T]`` and ``group_id`` ``[B]``.
    """

    runs = ("collector",)

    def __init__(self, *, collector: Component) -> None:
        super().__init__()
        self.collector = collector
        self.generator = new_generator()

    def forward(self, batch: TensorDict) -> TensorDict:
        """Return the rows of the inner collector with permuted anchors."""
        rows = self.collector(batch)
        anchor, turn = rows["anchor_id"].cpu().clone(), rows["turn_id"].cpu()
        group = rows["group_id"].cpu()
        for number in group.unique():
            mask = (turn >= 0) & (group == number)[:, None]
            row, _ = mask.nonzero(as_tuple=True)
            turns, index = torch.unique(
                torch.stack([row, turn[mask]], 1), dim=0, return_inverse=True
            )
            turn_anchor = anchor.new_zeros(len(turns))
            turn_anchor[index] = anchor[mask]
            order = torch.randperm(len(turns), generator=self.generator)
            anchor[mask] = turn_anchor[order][index]
        next_request(self.generator)
        rows["anchor_id"] = anchor.to(rows["group_id"].device)
        return rows
