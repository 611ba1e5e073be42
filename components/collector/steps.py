"""Steps in environments of control."""

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
from rlcomp.errors import ConfigError
from rlcomp.interfaces.protocols import ResumableEnvironment
from rlcomp.metrics import record, record_total
from rlcomp.seed import named_seed, new_generator


class StepCollector(Component):
    """Collector of ``num_steps`` steps per environment copy; episodes continue across batches.

    Writes a new batch ``[N, num_steps]`` of ``N`` copies, with every entry of the environment and
    of the policy. Records ``episode/return`` and ``episode/length`` over the episodes that ended,
    and ``collector/frames``, the steps of all copies together.

    An environment whose state is tensors
    (:class:`rlcomp.interfaces.protocols.ResumableEnvironment`) continues from a checkpoint bit by
    bit. Others cannot be rewound: a resumed run restores weights, optimiser and replay but starts
    new episodes.

    Args:
        environment: writes ``episode_reward`` and ``step_count``. Collectors may share one; each
            starts with new episodes.
        policy: the policy that draws actions.
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
        self.seen: TensorDict | None = None

    @torch.no_grad()
    def forward(self, batch: TensorDict) -> TensorDict:
        """Return the next ``num_steps`` steps of every copy; ignores the incoming batch."""
        # The policy draws from the global generator; it has this node's state meanwhile.
        with torch.random.fork_rng(devices=[]), set_exploration_type(ExplorationType.RANDOM):
            torch.set_rng_state(self.generator.get_state())
            rollout = self._steps()
            self.generator.set_state(torch.get_rng_state())
        self.frames += rollout.numel()
        after = rollout["next"]
        record("episode/return", after["episode_reward"], where=after["done"])
        record("episode/length", after["step_count"], where=after["done"])
        record_total("collector/frames", rollout.numel())
        return rollout

    def _steps(self) -> TensorDict:
        observed, steps = self._seen(), []
        for _ in range(self.num_steps):
            acted = self.exploration(self.policy(observed))
            stepped, observed = self.environment.step_and_maybe_reset(acted)
            steps.append(stepped)
        self.seen = observed
        rollout: TensorDict = torch.stack(steps, dim=1)
        return rollout

    def _seen(self) -> TensorDict:
        if self.frames and isinstance(self.environment, ResumableEnvironment):
            return self.environment.present()
        return self.environment.reset() if self.seen is None else self.seen

    def run_state(self) -> dict[str, object]:
        """Return the number of frames collected."""
        return {"frames": self.frames}

    def load_run_state(self, state: dict[str, int]) -> None:
        """Continue, with new episodes and seeds if the environment cannot be rewound."""
        self.frames, self.seen = field(state, "frames", NonNegativeInt), None
        if not isinstance(self.environment, ResumableEnvironment):
            start = named_seed(self.seed, f"after {self.frames} frames")
            self.environment.set_seed(start % 2**31)  # gymnasium accepts at most 31 bits


_GOALS = ("achieved_goal", "desired_goal", "trajectory")


class GoalStepCollector(StepCollector):
    """Collector of steps with desired goal, achieved goal and the number of the episode.

    Everything else is as in :class:`~components.collector.steps.StepCollector`.

    Args:
        environment: writes ``achieved_goal``, ``desired_goal`` and ``trajectory`` as well.
        policy: the policy that draws actions.
        exploration: the stage that changes the actions; ``Nothing`` leaves them.
        num_steps: steps of each copy per batch.

    Raises:
        ConfigError: the environment has no goals; names the key that is not there.
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
                f"the environment shows no '{missing[0]}' ({', '.join(map(str, spec))}): hindsight "
                "needs goals, as the environment of recipe=her has them; or begin with recipe=sac"
            )


class GymnasiumCollector(TensorDictModuleBase):  # type: ignore[misc]
    """Collector of ``num_steps`` steps per environment copy; episodes continue across batches.

    Writes a new batch ``[N, num_steps]`` of ``N`` copies of the environment with torchrl's keys
    of the environment and of the policy. Records ``episode/return`` and ``episode/length``
    over the episodes that ended, and ``collector/frames``, the steps of all copies together.

    The environments cannot be rewound: a resumed run restores weights and optimizer but starts new
    episodes, so its numbers differ from those of an uninterrupted run.

    Args:
        environment: the environment; writes ``episode_reward`` and ``step_count``.
        policy: the policy; draws actions and writes their log-probs.
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
        specified = environment.fake_tensordict().keys(include_nested=True, leaves_only=True)
        self.out_keys = list(dict.fromkeys([*specified, *policy.out_keys]))

    def forward(self, batch: TensorDict) -> TensorDict:
        """Return the next ``num_steps`` steps of every copy; ignores the incoming batch."""
        rollout = self._next()
        self.frames += rollout.numel()
        after = rollout["next"]
        record("episode/return", after["episode_reward"], where=after["done"])
        record("episode/length", after["step_count"], where=after["done"])
        record_total("collector/frames", rollout.numel())
        return rollout

    def _next(self) -> TensorDict:
        # The policy draws from the global generator; it has this node's state meanwhile.
        with torch.random.fork_rng(devices=[]):
            torch.set_rng_state(self.generator.get_state())
            if self.collector is None:  # environment and policy are on their device only now
                self.collector = self._collector()
            rollout: TensorDict = self.collector.next()
            self.generator.set_state(torch.get_rng_state())
        return rollout

    def _collector(self) -> Collector:
        frames = self.num_steps * self.environment.batch_size.numel()
        return Collector(
            self.environment,
            self.policy,
            frames_per_batch=frames,
            total_frames=-1,
            auto_register_policy_transforms=False,
        )

    def run_state(self) -> dict[str, object]:
        """Return the number of frames collected."""
        return {"frames": self.frames}

    def load_run_state(self, state: dict[str, int]) -> None:
        """Continue with new episodes and new seeds."""
        self.frames = field(state, "frames", NonNegativeInt)
        start = named_seed(self.seed, f"after {self.frames} frames")
        self.environment.set_seed(start % 2**31)  # environments accept at most 31 bits
