"""Intervention by a device that writes into a queue from another thread."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Sequence

import torch
from tensordict import TensorDict
from torch import Tensor
from torchrl.envs import EnvBase

from components.intervention.function import as_action
from rlcomp.arguments import NonNegativeFloat, NonNegativeInt, PositiveInt
from rlcomp.errors import ConfigError
from rlcomp.interfaces.intervention import Intervention
from rlcomp.model.continuous_control import bounded_actions

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
