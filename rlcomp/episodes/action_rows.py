"""Episodes of control as rows of tokens, in the layout of agents' episodes."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import torch
from tensordict import TensorDict
from torch import Tensor

from rlcomp.interfaces.batched_environment import BatchedEnvironment


@runtime_checkable
class ActsInTokens(Protocol):
    """Interface of policies whose steps are ``D`` tokens of an observation, ``A`` of an action.

    Attributes:
        observation_size: ``D``.
    """

    observation_size: int

    def act(
        self, observation: TensorDict, generator: torch.Generator | None
    ) -> tuple[Tensor, Tensor]:
        """Return tokens ``[N, D + A]`` and log-probs ``[N, A]`` (nats) of a step.

        Without a generator, actions are the most likely ones.
        """
        ...

    def decode_action(self, tokens: Tensor) -> Tensor:
        """Return the action ``[N, A]`` of the tokens ``[N, D + A]`` of a step."""
        ...


def play_rows(
    environment: BatchedEnvironment,
    policy: ActsInTokens,
    observation: TensorDict,
    generator: torch.Generator | None,
    goal_reward: float,
) -> TensorDict:
    """Play an episode in every copy of an environment, to its end or to the goal.

    Args:
        environment: an environment after a reset.
        policy: the policy of the actions.
        observation: the observations after the reset.
        generator: draws the actions; None: the most likely ones.
        goal_reward: a step with at least this reward has reached the goal.

    Returns:
        A row for each copy: ``tokens``, ``attention_mask``, ``response_mask`` (the tokens of
        actions), ``rollout_log_probs``, ``turn_id`` (the number of the step), ``turn_reward`` (1
        at the last token of the step that succeeded) ``[B, T]``, ``trajectory_id``, ``truncated``
        (whether no step succeeded) ``[B]``. A row is padded after the end of its episode; ``T`` is
        ``D + A`` times the steps of the longest one.
    """
    steps: list[TensorDict] = []
    over = torch.zeros(environment.num_envs, dtype=torch.bool)
    while not bool(over.all()):
        tokens, log_probs = policy.act(observation, generator)
        next_state = environment.step(observation.set("action", policy.decode_action(tokens)))[
            "next"
        ]
        success = ~over & (next_state["reward"][:, 0] >= goal_reward)
        steps.append(_columns(tokens, log_probs, success, ~over, len(steps)))
        over = over | success | next_state["done"][:, 0]
        observation = next_state
    rows = {key: torch.cat([step[key] for step in steps], dim=1) for key in steps[0].keys()}
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
    """Return the columns ``[B, D + A]`` of a step."""
    observation_size = tokens.shape[1] - log_probs.shape[1]
    mask = alive[:, None].expand(tokens.shape)
    action_mask = mask & (torch.arange(tokens.shape[1]) >= observation_size)
    no_log_probs = log_probs.new_zeros(len(tokens), observation_size)
    token_log_probs = torch.cat([no_log_probs, log_probs], dim=1)
    reward = torch.zeros(tokens.shape)
    reward[:, -1] = success.float()
    return TensorDict(
        {
            "tokens": torch.where(mask, tokens, 0),
            "attention_mask": mask.clone(),
            "response_mask": action_mask,
            "rollout_log_probs": torch.where(action_mask, token_log_probs, 0.0),
            "turn_id": torch.where(action_mask, step, -1),
            "turn_reward": reward,
        },
        batch_size=tokens.shape,
    )
