"""Environments of control, stepped as one batch."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import ClassVar, Protocol, TypeAlias, runtime_checkable

import torch
from tensordict import TensorDict
from torch import Tensor
from torchrl.data import Binary, Bounded, Categorical, Composite, Unbounded
from torchrl.envs import EnvBase

from rlcomp.arguments import PositiveInt
from rlcomp.component import check_arguments
from rlcomp.errors import ConfigError, nearest
from rlcomp.seed import named_seed, new_generator


@runtime_checkable
class Randomises(Protocol):
    """Domain randomisation: the parameters to draw, their ranges and their distribution."""

    def ranges(self, nominal: Mapping[str, float]) -> Mapping[str, tuple[float, float]]:
        """Return the lowest and highest value of each parameter to draw.

        Args:
            nominal: value of every parameter of the environment without draws.

        Raises:
            ConfigError: the environment lacks a parameter, or a range is empty.
        """
        ...

    def draw(self, low: Tensor, high: Tensor, generator: torch.Generator) -> Tensor:
        """Draw values between two bounds of the same shape."""
        ...


@runtime_checkable
class HasDynamics(Protocol):
    """An environment whose dynamics have named parameters."""

    def set_dynamics(self, values: Mapping[str, float]) -> None:
        """Set parameters in every copy; all other parameters return to the values of each copy.

        Raises:
            ConfigError: there is no such parameter.
        """
        ...


# A parameter of the dynamics: one number for all copies, or a tensor with one number per copy.
Parameter: TypeAlias = float | Tensor


class BatchedEnvironment(EnvBase):  # type: ignore[misc]
    """``N`` copies of a dynamical system, stepped as one batch.

    A subclass sets ``size`` and ``action``, and defines :meth:`begin`,
    :meth:`advance` and :meth:`observe`. The state is a buffer ``[N, S]``, so that checkpoints
    contain it. Start states are drawn from the environment's own generator.

    The attributes in ``dynamics_names`` are the parameters of the dynamics; :meth:`advance` reads
    them from :attr:`dynamics`. ``randomise`` may draw them for each episode, and an evaluator may
    set them.

    Writes ``observation`` ``[N, D]`` (or the entries of :meth:`observations`) and, ``[N, 1]``,
    ``step_count`` (steps of the episode), ``trajectory`` (id of the episode), ``episode_reward``
    (sum of the rewards since the episode's start), ``done``, ``terminated`` and ``truncated``;
    under ``next`` the same after the step, and ``reward`` ``[N, 1]``.

    Args:
        num_envs: number of copies.
        max_steps: steps after which an episode is cut (truncated).
        randomise: draws parameters of the dynamics for each copy when its episode begins, from a
            separate generator; None: the parameters are constant.

    Raises:
        ConfigError: ``randomise`` names a parameter that the environment lacks.
    """

    dynamics_names: ClassVar[tuple[str, ...]] = ()

    drawn: Tensor
    lowest: Tensor
    highest: Tensor
    state: Tensor
    steps: Tensor
    rewards: Tensor
    trajectory: Tensor
    # Number of entries of a state (S); number of discrete actions, or bounds of each of the
    # ``action_size`` entries of a continuous action.
    size: int
    action: int | tuple[float, float]
    action_size: int = 1

    def __init__(
        self, *, num_envs: PositiveInt, max_steps: PositiveInt, randomise: Randomises | None = None
    ) -> None:
        super().__init__(device=torch.device("cpu"), batch_size=torch.Size([num_envs]))
        check_arguments(BatchedEnvironment, (), {"num_envs": num_envs, "max_steps": max_steps})
        self.num_envs, self.max_steps = num_envs, max_steps
        self.generator = new_generator()
        self.register_buffer("state", torch.zeros(num_envs, self.size))
        for name, kind in (("steps", torch.int64), ("rewards", torch.float32)):
            self.register_buffer(name, torch.zeros(num_envs, 1, dtype=kind))
        # The first reset adds ``num_envs``, so that ids begin at 0.
        self.register_buffer("trajectory", torch.arange(num_envs).view(-1, 1) - num_envs)
        self.randomise = randomise
        self.fixed_dynamics: dict[str, float] = {}
        nominal = {name: float(getattr(self, name)) for name in self.dynamics_names}
        self.ranges = {} if randomise is None else dict(randomise.ranges(nominal))
        if self.ranges:
            bounds = torch.tensor(list(self.ranges.values())).expand(num_envs, -1, -1)
            self.register_buffer("lowest", bounds[..., 0].clone(), persistent=False)
            self.register_buffer("highest", bounds[..., 1].clone(), persistent=False)
            self.register_buffer("drawn", torch.zeros(num_envs, len(self.ranges)))
            # A separate generator, so that start states are the same without randomisation.
            seed = named_seed(torch.initial_seed(), "dynamics")
            self.dynamics_generator = torch.Generator().manual_seed(seed)
        self._specify()

    @property
    def dynamics(self) -> dict[str, Parameter]:
        """Return the current parameters of the dynamics, by name; drawn ones are ``[N]``."""
        nominal: dict[str, Parameter] = {name: getattr(self, name) for name in self.dynamics_names}
        drawn = {name: self.drawn[:, column] for column, name in enumerate(self.ranges)}
        return {**nominal, **drawn, **self.fixed_dynamics}

    def set_dynamics(self, values: Mapping[str, float]) -> None:
        """Set parameters in every copy; all other parameters return to the values of each copy.

        Raises:
            ConfigError: there is no such parameter.
        """
        for name in values:
            if name not in self.dynamics_names:
                raise ConfigError(
                    f"{type(self).__name__} has no parameter '{name}' of its dynamics"
                    f"{nearest(name, self.dynamics_names)}"
                )
        self.fixed_dynamics = dict(values)

    @abstractmethod
    def begin(self) -> Tensor:
        """Return start states ``[N, S]`` of new episodes, drawn from ``self.generator``."""

    @abstractmethod
    def advance(self, state: Tensor, action: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return next states ``[N, S]``, rewards ``[N]``, and a mask ``[N]`` of ended episodes."""

    @abstractmethod
    def observe(self, state: Tensor) -> Tensor:
        """Return the observations of states, ``[N, D]``."""

    def observations(self, state: Tensor) -> dict[str, Tensor]:
        """Return the entries that a policy observes in states; by default the observation."""
        return {"observation": self.observe(state)}

    def present(self) -> TensorDict:
        """Return the current observation and counts of every copy, with all flags False."""
        return self._output(torch.zeros(self.num_envs, 1, dtype=torch.bool))

    def check_groups(self, group_size: int) -> None:
        """Refuse a group size that does not divide the number of copies.

        Raises:
            ConfigError: the group size does not divide the number of copies.
        """
        if self.num_envs % group_size:
            raise ConfigError(
                f"environment.num_envs is {self.num_envs}: must be a multiple of group_size, "
                f"{group_size}"
            )

    def begin_groups(self, group_size: int) -> TensorDict:
        """Begin new episodes, with equal start states and drawn dynamics in each group of copies.

        Returns the observation. ConfigError as in :meth:`check_groups`.
        """
        self.check_groups(group_size)
        self.reset()
        self.state = self.state[::group_size].repeat_interleave(group_size, dim=0)
        if self.ranges:
            self.drawn = self.drawn[::group_size].repeat_interleave(group_size, dim=0)
        return self.present()

    def _output(self, ended: Tensor, **further: Tensor) -> TensorDict:
        counts = {
            "step_count": self.steps.clone(),
            "trajectory": self.trajectory.clone(),
            "episode_reward": self.rewards.clone(),
        }
        flags = dict.fromkeys(("done", "terminated", "truncated"), ended)
        observations = self.observations(self.state)
        return TensorDict({**observations, **counts, **flags, **further}, self.batch_size)

    def step_and_maybe_reset(self, tensordict: TensorDict) -> tuple[TensorDict, TensorDict]:
        """Step as torchrl's method does, but without its search for the entries to copy.

        Args:
            tensordict: holds ``action``.

        Returns:
            ``tensordict`` with ``next``, and the input of the next step, in which ended copies
            have begun new episodes.
        """
        after = self._step(tensordict)
        entries = {**dict(tensordict.items()), **dict(after.items())}
        current = {key: entry for key, entry in entries.items() if key not in ("next", "reward")}
        present = TensorDict(current, self.batch_size)
        tensordict.set("next", after)
        return tensordict, self.maybe_reset(present) if bool(after["done"].any()) else present

    def _reset(self, tensordict: TensorDict | None = None, **_: object) -> TensorDict:
        mask = None if tensordict is None else tensordict.get("_reset", None)
        all_copies = torch.ones(self.num_envs, 1, dtype=torch.bool)
        reset = all_copies if mask is None else mask.view(-1, 1)
        self.state = torch.where(reset, self.begin(), self.state)
        self.steps = torch.where(reset, 0, self.steps)
        self.rewards = torch.where(reset, 0.0, self.rewards)
        self.trajectory = torch.where(reset, self.trajectory + self.num_envs, self.trajectory)
        if self.randomise is not None and self.ranges:
            new = self.randomise.draw(self.lowest, self.highest, self.dynamics_generator)
            self.drawn = torch.where(reset, new, self.drawn)
        return self._output(~all_copies)

    def _step(self, tensordict: TensorDict) -> TensorDict:
        self.state, reward, terminated = self.advance(self.state, tensordict["action"])
        self.steps = self.steps + 1
        self.rewards = self.rewards + reward.view(-1, 1)
        ended = terminated.view(-1, 1)
        at_limit = self.steps >= self.max_steps
        return self._output(
            ended | at_limit,
            reward=reward.view(-1, 1),
            terminated=ended,
            truncated=at_limit & ~ended,
        )

    def _set_seed(self, seed: int | None) -> None:
        start = 0 if seed is None else seed
        self.generator.manual_seed(start)
        if self.ranges:
            self.dynamics_generator.manual_seed(named_seed(start, "dynamics"))

    def uniform(self, size: int, low: float, high: float) -> Tensor:
        """Return uniform numbers ``[N, size]``, drawn from the environment's own generator."""
        return torch.empty(self.num_envs, size).uniform_(low, high, generator=self.generator)

    def _specify(self) -> None:
        copies = self.num_envs
        entries = self.observations(self.state)
        observations = {key: Unbounded(entry.shape) for key, entry in entries.items()}
        count = Unbounded((copies, 1), dtype=torch.int64)
        counts = {"step_count": count, "trajectory": count.clone()}
        rewards = {"episode_reward": Unbounded((copies, 1))}
        self.observation_spec = Composite({**observations, **counts, **rewards}, shape=(copies,))
        self.reward_spec = Unbounded((copies, 1))
        flag = Binary(1, shape=(copies, 1), dtype=torch.bool)
        self.full_done_spec = Composite(
            {key: flag.clone() for key in ("done", "terminated", "truncated")}, shape=(copies,)
        )
        if isinstance(self.action, int):
            self.action_spec = Categorical(self.action, shape=(copies,))
        else:
            low, high = self.action
            self.action_spec = Bounded(low, high, (copies, self.action_size))


@runtime_checkable
class RewardsGoals(Protocol):
    """Environment that knows the reward of a step for any goal, not only for the desired one."""

    def reward_of(self, achieved: Tensor, desired: Tensor) -> Tensor:
        """Return the reward ``[N]`` of steps to ``achieved`` under the goal ``desired``."""
        ...


@runtime_checkable
class HasWall(Protocol):
    """Plane with a wall on its first axis, from the left edge to ``wall``.

    Attributes:
        wall: end of the wall.
        stride: largest move of a step, for each coordinate.
    """

    wall: float
    stride: float

    def blocked(self, start: Tensor, end: Tensor) -> Tensor:
        """Return a mask ``[N]`` of the pairs of points ``[N, 2]`` that the wall separates."""
        ...

    def path_length(self, start: Tensor, end: Tensor) -> Tensor:
        """Return the length of the shortest path between two points, ``[N]``."""
        ...
