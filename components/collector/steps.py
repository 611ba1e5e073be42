"""Collectors of steps and episodes in environments of control."""

from __future__ import annotations

from typing import ClassVar

import torch
from tensordict import TensorDict
from tensordict.nn import TensorDictModuleBase
from torchrl.collectors import Collector
from torchrl.envs import EnvBase, ExplorationType, set_exploration_type

from rlcomp.arguments import NonNegativeInt, PositiveInt
from rlcomp.checkpoint.state_fields import field
from rlcomp.component import Component, check_arguments
from rlcomp.episodes.action_rows import ActsInTokens, play_rows
from rlcomp.errors import ConfigError
from rlcomp.interfaces.batched_environment import BatchedEnvironment
from rlcomp.interfaces.policy import ScoresRows
from rlcomp.interfaces.protocols import ResumableEnvironment
from rlcomp.metrics import record, record_total
from rlcomp.seed import named_seed, new_generator


class StepCollector(Component):
    """Collector of ``num_steps`` steps per environment copy; episodes continue across batches.

    Writes a new batch ``[N, num_steps]`` of ``N`` copies, with every entry of the environment and
    of the policy. Records ``episode/return`` and ``episode/length`` over the episodes that ended,
    and ``collector/frames``, the steps of all copies together.

    A :class:`rlcomp.interfaces.protocols.ResumableEnvironment` continues from a checkpoint bit by
    bit. With any other environment, a resumed run restores weights, optimiser and replay but starts
    new episodes.

    Args:
        environment: writes ``episode_reward`` and ``step_count``. Collectors may share one; each
            starts with new episodes.
        policy: draws the actions.
        exploration: the stage that changes the actions; ``Nothing`` leaves them.
        num_steps: steps of each copy per batch.
    """

    writes: ClassVar[tuple[str, ...]] = (
        *("observation", "action", "step_count", "next.observation", "next.reward", "next.done"),
        *("next.terminated", "next.truncated", "next.step_count", "next.episode_reward"),
    )
    may_write = (
        *("action_log_prob", "trajectory", "achieved_goal", "desired_goal", "next.achieved_goal"),
        *("expert_action", "intervened"),
    )
    fresh = True

    def __init__(
        self,
        *,
        environment: EnvBase,
        policy: TensorDictModuleBase,
        exploration: TensorDictModuleBase,
        num_steps: PositiveInt = 4,
    ) -> None:
        super().__init__()
        self.environment = environment
        self.policy = policy
        self.exploration = exploration
        self.num_steps = num_steps
        self.generator = new_generator()
        self.seed = torch.initial_seed()
        self.frames = 0
        self.observation: TensorDict | None = None

    @torch.no_grad()
    def forward(self, batch: TensorDict) -> TensorDict:
        """Return the next ``num_steps`` steps of every copy; ignores the incoming batch."""
        # The policy draws from the global generator, which has this node's state meanwhile.
        with torch.random.fork_rng(devices=[]), set_exploration_type(ExplorationType.RANDOM):
            torch.set_rng_state(self.generator.get_state())
            rollout = self._steps()
            self.generator.set_state(torch.get_rng_state())
        self.frames += rollout.numel()
        _record_steps(rollout)
        return rollout

    def _steps(self) -> TensorDict:
        observation, steps = self._first_observation(), []
        for _ in range(self.num_steps):
            action = self.exploration(self.policy(observation))
            step, observation = self.environment.step_and_maybe_reset(action)
            steps.append(step)
        self.observation = observation
        rollout: TensorDict = torch.stack(steps, dim=1)
        return rollout

    def _first_observation(self) -> TensorDict:
        """Return the observation before the next step of every copy."""
        if self.frames and isinstance(self.environment, ResumableEnvironment):
            return self.environment.present()
        return self.environment.reset() if self.observation is None else self.observation

    def run_state(self) -> dict[str, object]:
        """Return the number of frames collected."""
        return {"frames": self.frames}

    def load_run_state(self, state: dict[str, int]) -> None:
        """Continue, with new episodes and seeds if the environment cannot resume."""
        self.frames, self.observation = field(state, "frames", NonNegativeInt), None
        if not isinstance(self.environment, ResumableEnvironment):
            start = named_seed(self.seed, f"after {self.frames} frames")
            self.environment.set_seed(start % 2**31)  # gymnasium accepts at most 31 bits


def _record_steps(rollout: TensorDict) -> None:
    """Record the returns and lengths of the episodes that ended, and the number of steps."""
    after = rollout["next"]
    record("episode/return", after["episode_reward"], where=after["done"])
    record("episode/length", after["step_count"], where=after["done"])
    record_total("collector/frames", rollout.numel())


_GOALS = ("achieved_goal", "desired_goal", "trajectory")


class GoalStepCollector(StepCollector):
    """Collector of steps with goals; otherwise equal to :class:`StepCollector`.

    Args:
        environment: writes ``achieved_goal``, ``desired_goal`` and ``trajectory`` (the number of
            the episode), besides ``episode_reward`` and ``step_count``.
        policy: draws the actions.
        exploration: the stage that changes the actions; ``Nothing`` leaves them.
        num_steps: steps of each copy per batch.

    Raises:
        ConfigError: the environment has no goals.
    """

    writes: ClassVar[tuple[str, ...]] = (
        *StepCollector.writes,
        *("achieved_goal", "desired_goal", "trajectory", "next.achieved_goal"),
        "next.desired_goal",
    )

    def __init__(
        self,
        *,
        environment: EnvBase,
        policy: TensorDictModuleBase,
        exploration: TensorDictModuleBase,
        num_steps: PositiveInt = 50,
    ) -> None:
        super().__init__(
            environment=environment, policy=policy, exploration=exploration, num_steps=num_steps
        )
        spec = environment.observation_spec
        missing = [key for key in _GOALS if key not in spec]
        if missing:
            raise ConfigError(
                f"the environment has no '{missing[0]}' ({', '.join(map(str, spec))}), which goals "
                "need: take an environment with goals, as recipe=her does, or begin with recipe=sac"
            )


class GymnasiumCollector(TensorDictModuleBase):  # type: ignore[misc]
    """Collector of ``num_steps`` steps per environment copy, with torchrl's ``Collector``.

    It takes any environment of torchrl, not only Gymnasium's. Episodes continue across batches.
    Unlike :class:`StepCollector` it has no exploration stage.

    Writes a new batch ``[N, num_steps]`` of ``N`` copies of the environment with torchrl's keys
    of the environment and of the policy. Records ``episode/return`` and ``episode/length``
    over the episodes that ended, and ``collector/frames``, the steps of all copies together.

    A resumed run restores weights and optimizer but starts new episodes, so its numbers differ from
    those of an uninterrupted run.

    Args:
        environment: writes ``episode_reward`` and ``step_count``.
        policy: draws actions and writes their log-probs.
        num_steps: steps of each copy per batch.
    """

    def __init__(
        self, *, environment: EnvBase, policy: TensorDictModuleBase, num_steps: PositiveInt = 128
    ) -> None:
        super().__init__()
        check_arguments(
            type(self), (), {"environment": environment, "policy": policy, "num_steps": num_steps}
        )
        self.environment = environment
        self.policy = policy
        self.num_steps = num_steps
        self.generator = new_generator()
        self.seed = torch.initial_seed()
        self.frames = 0
        self.collector: Collector | None = None
        self.in_keys: list[str] = []
        env_keys = environment.fake_tensordict().keys(include_nested=True, leaves_only=True)
        self.out_keys = list(dict.fromkeys([*env_keys, *policy.out_keys]))

    def forward(self, batch: TensorDict) -> TensorDict:
        """Return the next ``num_steps`` steps of every copy; ignores the incoming batch."""
        rollout = self._next()
        self.frames += rollout.numel()
        _record_steps(rollout)
        return rollout

    def _next(self) -> TensorDict:
        # The policy draws from the global generator, which has this node's state meanwhile.
        with torch.random.fork_rng(devices=[]):
            torch.set_rng_state(self.generator.get_state())
            # Not in __init__, after which environment and policy are moved to a device.
            if self.collector is None:
                self.collector = Collector(
                    self.environment,
                    self.policy,
                    frames_per_batch=self.num_steps * self.environment.batch_size.numel(),
                    total_frames=-1,
                    auto_register_policy_transforms=False,
                )
            rollout: TensorDict = self.collector.next()
            self.generator.set_state(torch.get_rng_state())
        return rollout

    def run_state(self) -> dict[str, object]:
        """Return the number of frames collected."""
        return {"frames": self.frames}

    def load_run_state(self, state: dict[str, int]) -> None:
        """Continue with new episodes and new seeds."""
        self.frames = field(state, "frames", NonNegativeInt)
        start = named_seed(self.seed, f"after {self.frames} frames")
        self.environment.set_seed(start % 2**31)  # environments accept at most 31 bits


class ActionEpisodes(Component):
    """Collector of one episode per copy of an environment, each a row of tokens.

    An episode ends with its environment, or earlier at the first step with a reward of at least
    ``goal_reward``; the rest of its row is padding. Each step is a turn, as in the rows of agents.

    Reads nothing. Writes a new batch: ``tokens``, ``attention_mask``, ``response_mask``,
    ``rollout_log_probs``, ``policy_version``, ``turn_id``, ``turn_reward`` ``[B, T]``,
    ``group_id``, ``trajectory_id``, ``truncated`` ``[B]``. ``turn_reward`` is 1 at the last token
    of the step that reached the goal, else 0; ``truncated`` marks episodes without such a step.
    Records ``episode/success``, ``episode/length`` (steps) and ``collector/frames``.

    Args:
        environment: the environment, one copy per row.
        policy: the policy, whose actions are tokens.
        group_size: number of copies with equal starts.
        goal_reward: least reward of a step that reaches the goal.

    Raises:
        ConfigError: ``group_size`` does not divide the number of copies.
    """

    writes = (
        *("tokens", "attention_mask", "response_mask", "rollout_log_probs", "policy_version"),
        *("turn_id", "turn_reward", "group_id", "trajectory_id", "truncated"),
    )
    fresh = True

    def __init__(
        self,
        *,
        environment: BatchedEnvironment,
        policy: ActsInTokens,
        group_size: PositiveInt,
        goal_reward: float = 0.0,
    ) -> None:
        super().__init__()
        environment.check_groups(group_size)
        self.environment = environment
        self.policy = policy
        self.group_size = group_size
        self.goal_reward = goal_reward
        self.generator = new_generator()

    def forward(self, batch: TensorDict) -> TensorDict:
        """Play and return one episode per copy; the incoming batch is ignored."""
        start = self.environment.begin_groups(self.group_size)
        rows = play_rows(self.environment, self.policy, start, self.generator, self.goal_reward)
        copies = torch.arange(self.environment.num_envs)
        rows["group_id"] = copies // self.group_size
        version = self.policy.version if isinstance(self.policy, ScoresRows) else 0
        rows["policy_version"] = torch.full(rows["tokens"].shape, version)
        lengths = rows["turn_id"].amax(1) + 1
        record("episode/success", rows["turn_reward"].sum(1))
        record("episode/length", lengths.float())
        record_total("collector/frames", float(lengths.sum()))
        return rows
