"""Episodes of control as rows of tokens, in the layout that agents' episodes have."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import torch
from tensordict import TensorDict
from torch import Tensor

from rlcomp.interfaces.batched_environment import BatchedEnvironment


@runtime_checkable
class ActsInTokens(Protocol):
    """Says the tokens of a step, and what action they are.

    Attributes:
        seen_size: how many tokens of what is seen begin a step (``D``).
    """

    seen_size: int

    def act(self, seen: TensorDict, generator: torch.Generator | None) -> tuple[Tensor, Tensor]:
        """Tokens ``[N, D + A]`` and log-probs ``[N, A]``; without a generator the most likely."""
        ...

    def action_of(self, tokens: Tensor) -> Tensor:
        """The action ``[N, A]`` of the tokens of a step."""
        ...


def play_rows(
    environment: BatchedEnvironment,
    policy: ActsInTokens,
    seen: TensorDict,
    generator: torch.Generator | None,
    goal_reward: float,
) -> TensorDict:
    """Play an episode in every copy, to its end or the first step whose reward is that of a goal.

    Args:
        environment: in which episodes have just begun.
        policy: acts.
        seen: what is seen at their starts.
        generator: to draw actions with; None: the most likely ones.
        goal_reward: of a step at the goal: where a reward is at least this, the episode has
            succeeded and is over.

    Returns:
        A row for each copy: ``tokens``, ``attention_mask``, ``response_mask`` (the tokens of
        actions), ``rollout_log_probs``, ``turn_id`` (the number of the step), ``turn_reward`` (1
        at the last token of the step that succeeded) ``[B, T]``, ``trajectory_id``, ``truncated``
        ``[B]``. The row of an episode that is over is padded.
    """
    steps: list[TensorDict] = []
    over = torch.zeros(environment.num_envs, dtype=torch.bool)
    while not bool(over.all()):
        tokens, log_probs = policy.act(seen, generator)
        stepped = environment.step(seen.set("action", policy.action_of(tokens)))["next"]
        success = ~over & (stepped["reward"][:, 0] >= goal_reward)
        steps.append(_columns(tokens, log_probs, success, ~over, len(steps)))
        over = over | success | stepped["done"][:, 0]
        seen = stepped
    rows = {key: torch.cat([each[key] for each in steps], dim=1) for key in steps[0].keys()}
    return TensorDict(
        {
            **rows,
            "trajectory_id": torch.arange(len(over)),
            "truncated": rows["turn_reward"].sum(1) == 0,
        },
        batch_size=[len(over)],
    )


def _columns(
    tokens: Tensor, log_probs: Tensor, success: Tensor, alive: Tensor, step: int
) -> TensorDict:
    """The columns ``[B, D + A]`` of a step."""
    seen = tokens.shape[1] - log_probs.shape[1]
    there = alive[:, None].expand(tokens.shape)
    acted = there & (torch.arange(tokens.shape[1]) >= seen)
    recorded = torch.cat([log_probs.new_zeros(len(tokens), seen), log_probs], dim=1)
    paid = torch.zeros(tokens.shape)
    paid[:, -1] = success.float()
    return TensorDict(
        {
            "tokens": torch.where(there, tokens, 0),
            "attention_mask": there.clone(),
            "response_mask": acted,
            "rollout_log_probs": torch.where(acted, recorded, 0.0),
            "turn_id": torch.where(acted, step, -1),
            "turn_reward": paid,
        },
        batch_size=tokens.shape,
    )
