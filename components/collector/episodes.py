"""Episode rollouts."""

from __future__ import annotations

import torch
from tensordict import TensorDict
from torch import Tensor

from rlcomp.arguments import PositiveInt
from rlcomp.batch import decode_texts
from rlcomp.episodes.match_player import SeatedPlayer
from rlcomp.episodes.player import Plays
from rlcomp.functional.reduction import masked
from rlcomp.interfaces.stages import Collector
from rlcomp.interfaces.turns import episodes_of
from rlcomp.metrics import record, record_total
from rlcomp.seed import named_seed, new_generator


class EpisodeCollector(Collector):
    """Collector of ``group_size`` episodes per prompt between the policy and an environment.

    A row holds a whole episode: the prompt, then turns of the policy and observations.
    ``response_mask`` marks the tokens that the policy sampled. ``response`` is the text of the last
    turn. An outside agent (``player=traces``) that rewrites its history has several rows.

    ``truncated`` marks episodes whose last turn reached ``max_new_tokens``, that did not end within
    ``max_turns``, or whose context was full. ``episode_error`` holds the failure of an
    environment.

    Reads ``prompt`` ``[P, W]``, and for the environment ``columns`` and ``answer`` if they are
    there; uses ``policy_prompt`` instead of ``prompt`` if it is there. Writes a new batch of
    at least ``P * group_size`` rows as every collector, and ``trajectory_id`` ``[B]``, ``turn_id``,
    ``turn_reward``, ``anchor_id`` ``[B, T]``, ``transcript``, ``episode_error`` ``[B, W]``,
    ``facts``.

    Records once for each episode ``episode/turns``, ``episode/environment_reward`` (the sum over
    its turns), ``episode/failed``, ``episode/observed`` (tokens after the first turn of a row that
    were not sampled) and each fact as ``facts/<name>``. ``rollout/length`` counts sampled tokens.

    Args:
        player: the player of the episodes.
        group_size: episodes per prompt.
    """

    optional = (*Collector.optional, "columns", "answer")
    writes = (
        *Collector.writes,
        "trajectory_id",
        "turn_id",
        "turn_reward",
        "anchor_id",
        "transcript",
        "episode_error",
        "facts",
    )

    def __init__(
        self,
        *,
        player: Plays,
        group_size: PositiveInt,
    ) -> None:
        super().__init__()
        self.policy = player.policy
        self.player = player
        self.group_size = group_size
        self.generator = new_generator()

    def forward(self, batch: TensorDict) -> TensorDict:
        """Roll out episodes."""
        seed = named_seed(self.generator.initial_seed(), "environments")
        rows = self.roll_out(batch, seed)
        _record(rows)
        return rows

    def roll_out(self, batch: TensorDict, seed: int) -> TensorDict:
        """Return the rows of a batch of prompts; the seed fixes the environments' random draws."""
        return self.player.play(
            batch,
            group_size=self.group_size,
            decoding=None,
            generator=self.generator,
            seed=seed,
        )


def sampled(rows: TensorDict) -> Tensor:
    """Return the response tokens that were sampled for the row itself, bool, shape ``[B, T]``.

    Tokens that a branch shares with its parent were sampled once, for the parent.
    """
    mask: Tensor = rows["response_mask"]
    if "branch_depth" not in rows.keys():
        return mask
    own: Tensor = torch.arange(mask.shape[1], device=mask.device) >= rows["branch_depth"][:, None]
    return mask & own


def _record(rows: TensorDict) -> None:
    """Record the metrics of episodes, each once even if it has several rows."""
    episode, first = episodes_of(rows)

    def summed(values: Tensor) -> Tensor:
        return values.new_zeros(len(first)).index_add(0, episode, values)

    lengths = summed(rows["response_mask"].sum(1))
    failed = torch.tensor([bool(text) for text in decode_texts(rows["episode_error"][first])])
    observed = rows["attention_mask"] & ~rows["response_mask"]
    observed &= rows["response_mask"].cumsum(1) > 0
    turns = rows["turn_id"].amax(1) + 1
    record("rollout/length", lengths)
    record("rollout/truncated", summed(rows["truncated"].int()) > 0)
    record_total("rollout/tokens", float(sampled(rows).sum()))
    record(
        "episode/turns",
        turns.new_zeros(len(first)).scatter_reduce(0, episode, turns, "amax").float(),
    )
    record("episode/environment_reward", summed(rows["turn_reward"].sum(1)))
    record("episode/failed", failed.float())
    record("episode/observed", summed(observed.sum(1)))
    for name, fact in rows["facts"].items():
        record(f"facts/{name}", fact[first], where=~fact[first].isnan())


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
