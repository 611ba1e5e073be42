"""Episode rollouts: several episodes per prompt, turn by turn with an environment."""

from __future__ import annotations

from collections.abc import Callable

import torch
from tensordict import TensorDict

from rlcomp.arguments import PositiveInt, Unbuilt
from rlcomp.batch import decode_texts
from rlcomp.episodes.host import Hosts
from rlcomp.episodes.player import Player
from rlcomp.interfaces.collector import Collector
from rlcomp.interfaces.environment import Environment
from rlcomp.interfaces.policy import TakesTurns
from rlcomp.interfaces.prompt import Prompt
from rlcomp.metrics import record, record_total, step
from rlcomp.seed import named_seed, new_generator


class EpisodeCollector(Collector):
    """Rolls out ``group_size`` episodes per prompt: the policy and an environment take turns.

    A row holds a whole episode: the prompt, then turns of the policy and observations, of which
    ``response_mask`` marks what the policy sampled. A turn ends with a stop token or one of the
    environment's stop texts; the environment answers with an observation, which is encoded as plain
    text and appended, or ends the episode. ``response`` is the text of the last turn.

    ``truncated`` are episodes whose last turn met ``max_new_tokens``, that were not over after
    ``max_turns``, or whose context was full. An episode whose environment failed says so in
    ``episode_error``.

    Reads ``prompt`` ``[P, W]``, where they are there ``columns`` and ``answer``, which the
    environment is told; asks ``policy_prompt`` where it is there. Writes a new batch of
    ``B = P * group_size`` rows as every collector, and ``trajectory_id`` ``[B]``, ``turn_id``,
    ``turn_reward``, ``anchor_id`` ``[B, T]``, ``transcript``, ``episode_error`` ``[B, W]``,
    ``facts``.

    Records ``episode/turns``, ``episode/environment_reward`` (of its turns, summed),
    ``episode/failed``, ``episode/observed`` (tokens of observations behind the first turn) and each
    fact as ``facts/<name>``; ``rollout/length`` counts what the policy sampled.

    Args:
        policy: takes the turns.
        environment: a class of environments (:class:`rlcomp.interfaces.environment.Environment`),
            one object an episode.
        hosts: where environments live; in the process if not given.
        group_size: episodes per prompt.
        max_turns: of the policy, in an episode.
        max_new_tokens: longest turn, in tokens.
        observation_tokens: longest observation; a longer one is cut, its closing text kept.
        prompt: how prompts become tokens; plain text if not given.

    Raises:
        ConfigError: the environment cannot be made, or the policy takes no turns, or does not stop
            where the format of the prompts ends a response.
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
        policy: TakesTurns,
        environment: Callable[..., Environment] | Unbuilt,
        hosts: Hosts | None = None,
        group_size: PositiveInt,
        max_turns: PositiveInt,
        max_new_tokens: PositiveInt,
        observation_tokens: PositiveInt = 256,
        prompt: Prompt | None = None,
    ) -> None:
        super().__init__()
        self.policy = policy
        self.player = Player(
            policy,
            environment,
            hosts,
            max_turns=max_turns,
            max_new_tokens=max_new_tokens,
            observation_tokens=observation_tokens,
            prompt=prompt,
        )
        self.group_size = group_size
        self.generator = new_generator()
        self.seed = torch.initial_seed()

    def forward(self, batch: TensorDict) -> TensorDict:
        """Roll out."""
        rows = self.player.play(
            batch,
            group_size=self.group_size,
            decoding=None,
            generator=self.generator,
            seed=named_seed(self.seed, f"step {step()}"),
        )
        _record(rows)
        return rows


def _record(rows: TensorDict) -> None:
    lengths = rows["response_mask"].sum(1)
    failed = torch.tensor([bool(text) for text in decode_texts(rows["episode_error"])])
    observed = rows["attention_mask"] & ~rows["response_mask"]
    observed &= rows["response_mask"].cumsum(1) > 0
    record("rollout/length", lengths)
    record("rollout/truncated", rows["truncated"])
    record_total("rollout/tokens", float(lengths.sum()))
    record("episode/turns", rows["turn_id"].amax(1) + 1.0)
    record("episode/environment_reward", rows["turn_reward"].sum(1))
    record("episode/failed", failed.float())
    record("episode/observed", observed.sum(1))
    for name, fact in rows["facts"].items():
        record(f"facts/{name}", fact, where=~fact.isnan())
