"""Interveners, who take over the actions of a policy."""

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
from rlcomp.model.continuous_control import bounded_actions

Decides = Callable[[int, Tensor, Tensor], Sequence[float] | Tensor | None]


class FunctionIntervention(Intervention):
    """Intervention by ``function(copy, observation, action)``, which returns an action or None.

    It is called for one copy after the other, with the observation (``[D]``) and the policy's
    action (``[A]``). It may show the observation and wait for a person's key. The actions of a
    person are saved with the steps, so a resumed run may continue with another person.

    Args:
        environment: the environment, for the bounds of actions.
        function: the function that decides.

    Raises:
        ConfigError: it returns something that is no action; names it.
    """

    def __init__(self, *, environment: EnvBase, function: Decides) -> None:
        super().__init__(actions=bounded_actions(environment))
        self.function = function

    def decide(self, batch: TensorDict) -> tuple[Tensor, Tensor]:
        """Call the function for every copy."""
        proposed = batch["action"]
        rows, over = [], []
        pairs = zip(batch["observation"], proposed, strict=True)
        for copy, (observation, action) in enumerate(pairs):
            other = self.function(copy, observation, action)
            over.append(other is not None)
            rows.append(action if other is None else as_action(other, action))
        return torch.stack(rows), torch.tensor(over)


def as_action(found: Sequence[float] | Tensor, like: Tensor) -> Tensor:
    """Convert an intervener's action to a tensor like the policy's action.

    Raises:
        ConfigError: it has another number of elements, or one is not finite.
    """
    try:
        action = torch.as_tensor(found, dtype=like.dtype)
        sound = action.shape == like.shape and bool(torch.isfinite(action).all())
    except (TypeError, ValueError, RuntimeError):
        sound = False
    if not sound:
        raise ConfigError(
            f"an intervention is {found!r:.100}: must be an action of {like.numel()} finite "
            "numbers, or None to let the policy act"
        )
    return action


Command = Sequence[float] | Tensor | None


class QueueIntervention(Intervention):
    """Intervention that applies the newest command of a device to one copy.

    ``device(commands)`` runs in its own thread from the first step on and puts actions into the
    queue; None returns control to the policy. A command holds for ``lasts`` steps unless another
    comes. Older commands that no step has applied are dropped.

    Args:
        environment: the environment, for the bounds of actions.
        device: function that reads a keyboard, a gamepad or a socket; called once.
        copy: number of the copy that it steers.
        lasts: number of steps that a command holds.
        seconds: least duration of a step, so that a person can follow.

    Raises:
        ConfigError: there is no such copy, or a command is no action.
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
            raise ConfigError(f"copy is {copy}: the environment has {copies}, from 0 on")
        self.device, self.copy, self.lasts, self.seconds = device, copy, lasts, seconds
        self.commands: queue.SimpleQueue[Command] = queue.SimpleQueue()
        self.thread: threading.Thread | None = None
        self.command: Command = None
        self.remaining = 0
        self.due = 0.0

    def decide(self, batch: TensorDict) -> tuple[Tensor, Tensor]:
        """Return the newest command and the mask of the copies it applies to."""
        self._wait()
        while not self.commands.empty():
            self.command, self.remaining = self.commands.get(), self.lasts
        chosen = batch["action"].clone()
        over = torch.zeros(len(chosen), dtype=torch.bool)
        if self.command is not None and self.remaining:
            chosen[self.copy] = as_action(self.command, chosen[self.copy])
            over[self.copy] = True
        self.remaining = max(0, self.remaining - 1)
        return chosen, over

    def _wait(self) -> None:
        """Wait until the step is due; start the device at the first step."""
        if self.thread is None:
            self.thread = threading.Thread(target=self.device, args=(self.commands,), daemon=True)
            self.thread.start()
        time.sleep(max(0.0, self.due - time.monotonic()))
        self.due = time.monotonic() + self.seconds


class ScriptedIntervention(Intervention):
    """Intervention for some steps after an episode came no nearer to its goal.

    A step is progress if it comes nearer than any earlier step of its episode. After ``patience``
    steps without progress the guide acts for ``duration`` steps, then the count restarts. After a
    share ``until`` of the phase there is no intervention.

    Also reads ``trajectory`` and what the guide reads.

    Args:
        environment: the environment, for the bounds of actions and the number of copies.
        guide: the guide, which acts and knows the distance to the goal.
        patience: steps without progress, at least 1.
        duration: number of the guide's steps.
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
        # no episode has this number
        self.register_buffer("episode", torch.full((copies,), torch.iinfo(torch.int64).min))
        for name in ("waited", "remaining"):
            self.register_buffer(name, torch.zeros(copies, dtype=torch.int64))

    def decide(self, batch: TensorDict) -> tuple[Tensor, Tensor]:
        """Return the guide's actions and the mask of the copies it helps."""
        self._watch(batch)
        begins = (self.remaining == 0) & (self.waited >= self.patience) & (progress() < self.until)
        self.remaining = torch.where(begins, self.duration, self.remaining)
        over = self.remaining > 0
        self.remaining = (self.remaining - 1).clamp(min=0)
        self.waited = torch.where(over, 0, self.waited)
        acted: Tensor = self.guide(batch.copy())["action"]
        return acted, over

    def _watch(self, batch: TensorDict) -> None:
        """Count the steps without progress of each episode."""
        distance, episode = self.guide.left(batch), batch["trajectory"][:, 0]
        new = episode != self.episode
        nearer = new | (distance < self.nearest)
        self.waited = torch.where(nearer, 0, self.waited + 1)
        self.nearest = torch.where(nearer, distance, self.nearest)
        self.remaining = torch.where(new, 0, self.remaining)
        self.episode = episode.clone()
