"""Interventions: a person, a function or an expert acts in place of a policy."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Sequence

import torch
from tensordict import TensorDict
from torch import Tensor
from torchrl.envs import EnvBase

from rlcomp.arguments import NonNegativeFloat, NonNegativeInt, PositiveInt, Probability
from rlcomp.errors import ConfigError
from rlcomp.interfaces.intervention import Intervention
from rlcomp.interfaces.protocols import ExpertPolicy
from rlcomp.metrics import progress
from rlcomp.model.control import bounded_actions

Command = Sequence[float] | Tensor | None
DecideFunction = Callable[[int, Tensor, Tensor], Command]


class FunctionIntervention(Intervention):
    """Intervention by ``function(copy, observation, action)``, which returns an action or None.

    The stage calls the function once per copy of the environment, with the number of the copy, the
    observation (``[D]``) and the policy's action (``[A]``). The function may show the observation
    and wait for a person's key. The actions of a person are saved with the steps, so a resumed run
    may continue with another person.

    Args:
        environment: the environment, for the bounds of actions.
        function: the function that returns the action, or None to keep the policy's action.

    Raises:
        ConfigError: (when called) the function returns a value that is no action.
    """

    def __init__(self, *, environment: EnvBase, function: DecideFunction) -> None:
        super().__init__(actions=bounded_actions(environment))
        self.function = function

    def decide(self, batch: TensorDict) -> tuple[Tensor, Tensor]:
        """Call the function for every copy."""
        rows, intervened = [], []
        pairs = zip(batch["observation"], batch["action"], strict=True)
        for copy, (observation, action) in enumerate(pairs):
            replacement = self.function(copy, observation, action)
            intervened.append(replacement is not None)
            rows.append(action if replacement is None else as_action(replacement, action))
        return torch.stack(rows), torch.tensor(intervened)


def as_action(value: Sequence[float] | Tensor, like: Tensor) -> Tensor:
    """Return an intervener's action as a tensor like the policy's action.

    Raises:
        ConfigError: the value is no sequence of numbers, has another shape than ``like``, or holds
            a number that is not finite.
    """
    try:
        action = torch.as_tensor(value, dtype=like.dtype)
        is_action = action.shape == like.shape and bool(torch.isfinite(action).all())
    except (TypeError, ValueError, RuntimeError):
        is_action = False
    if not is_action:
        raise ConfigError(
            f"an intervention is {value!r:.100}: must be an action of {like.numel()} finite "
            "numbers, or None to let the policy act"
        )
    return action


class QueueIntervention(Intervention):
    """Intervention that applies the newest command of a device to one copy.

    ``device(commands)`` runs in its own thread from the first step on and puts actions into the
    queue; the command None returns control to the policy. A command applies to ``lasts`` steps,
    unless a newer command comes. Commands older than the newest one are dropped.

    Args:
        environment: the environment, for the bounds of actions.
        device: function that reads a keyboard, a gamepad or a socket; called once.
        copy: number of the copy of the environment that the device controls.
        lasts: number of steps to which a command applies.
        seconds: least duration of a step, so that a person can follow.

    Raises:
        ConfigError: the environment has no such copy, or (when called) a command is no action.
    """

    def __init__(
        self,
        *,
        environment: EnvBase,
        device: Callable[[queue.SimpleQueue[Command]], object],
        copy: NonNegativeInt = 0,
        lasts: PositiveInt = 1,
        seconds: NonNegativeFloat = 0.1,
    ) -> None:
        super().__init__(actions=bounded_actions(environment))
        copies = environment.batch_size.numel()
        if copy >= copies:
            raise ConfigError(
                f"copy is {copy}, but the environment has {copies} copies: set copy to at most "
                f"{copies - 1}"
            )
        self.device, self.copy, self.lasts, self.seconds = device, copy, lasts, seconds
        self.commands: queue.SimpleQueue[Command] = queue.SimpleQueue()
        self.thread: threading.Thread | None = None
        self.command: Command = None
        self.remaining = 0
        self.next_step_time = 0.0

    def decide(self, batch: TensorDict) -> tuple[Tensor, Tensor]:
        """Return the actions, with the newest command in its copy, and the mask of that copy."""
        self._wait()
        while not self.commands.empty():
            self.command, self.remaining = self.commands.get(), self.lasts
        actions = batch["action"].clone()
        intervened = torch.zeros(len(actions), dtype=torch.bool)
        if self.command is not None and self.remaining:
            actions[self.copy] = as_action(self.command, actions[self.copy])
            intervened[self.copy] = True
        self.remaining = max(0, self.remaining - 1)
        return actions, intervened

    def _wait(self) -> None:
        """Wait until ``seconds`` after the last step; start the device at the first step."""
        if self.thread is None:
            self.thread = threading.Thread(target=self.device, args=(self.commands,), daemon=True)
            self.thread.start()
        time.sleep(max(0.0, self.next_step_time - time.monotonic()))
        self.next_step_time = time.monotonic() + self.seconds


class ScriptedIntervention(Intervention):
    """Intervention of a guide for some steps after an episode made no progress to its goal.

    A step is progress if its distance to the goal is the smallest of its episode. After
    ``patience`` steps without progress the guide acts for ``duration`` steps, then the count
    restarts. After the share ``until`` of the phase there is no intervention.

    Also reads ``trajectory`` and the keys of the guide.

    Args:
        environment: the environment, for the bounds of actions and the number of copies.
        guide: acts in place of the policy, and gives the distance to the goal.
        patience: number of steps without progress before the guide acts.
        duration: number of successive steps in which the guide acts.
        until: share of the phase with interventions, in [0, 1].
    """

    reads = ("observation", "action", "trajectory")

    episode: Tensor
    nearest: Tensor
    waited: Tensor
    remaining: Tensor

    def __init__(
        self,
        *,
        environment: EnvBase,
        guide: ExpertPolicy,
        patience: PositiveInt = 8,
        duration: PositiveInt = 10,
        until: Probability = 1.0,
    ) -> None:
        super().__init__(actions=bounded_actions(environment))
        self.guide = guide
        self.patience, self.duration, self.until = patience, duration, until
        copies = environment.batch_size.numel()
        self.register_buffer("nearest", torch.full((copies,), torch.inf))
        # No episode has this number.
        self.register_buffer("episode", torch.full((copies,), torch.iinfo(torch.int64).min))
        for name in ("waited", "remaining"):
            self.register_buffer(name, torch.zeros(copies, dtype=torch.int64))

    def decide(self, batch: TensorDict) -> tuple[Tensor, Tensor]:
        """Return the guide's actions and the mask of the copies it helps."""
        self._count_steps(batch)
        begins = (self.remaining == 0) & (self.waited >= self.patience) & (progress() < self.until)
        self.remaining = torch.where(begins, self.duration, self.remaining)
        intervened = self.remaining > 0
        self.remaining = (self.remaining - 1).clamp(min=0)
        self.waited = torch.where(intervened, 0, self.waited)
        actions: Tensor = self.guide(batch.copy())["action"]
        return actions, intervened

    def _count_steps(self, batch: TensorDict) -> None:
        """Count the steps without progress of each episode."""
        distance, episode = self.guide.distance_to_goal(batch), batch["trajectory"][:, 0]
        new = episode != self.episode
        nearer = new | (distance < self.nearest)
        self.waited = torch.where(nearer, 0, self.waited + 1)
        self.nearest = torch.where(nearer, distance, self.nearest)
        self.remaining = torch.where(new, 0, self.remaining)
        self.episode = episode.clone()
