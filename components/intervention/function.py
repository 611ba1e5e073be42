"""An intervener that is asked before every step: a function, or a person behind one."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from tensordict import TensorDict
from torch import Tensor
from torchrl.envs import EnvBase

from rlcomp.errors import ConfigError
from rlcomp.interfaces.intervention import Intervention
from rlcomp.model.continuous_control import bounded_actions

Decides = Callable[[int, Tensor, Tensor], Sequence[float] | Tensor | None]


class FunctionIntervention(Intervention):
    """Asks ``function(copy, observation, action)``: the action to take instead, or None.

    It is called for one copy after the other, with what is observed (``[D]``) and what the policy
    wants to do (``[A]``); it may draw the one and wait for a key. What a person does is saved with
    the steps, the person is not: a resumed run goes on with whoever is there.

    Args:
        environment: gives the bounds of actions.
        function: decides.

    Raises:
        ConfigError: it returns something that is no action; names what it was.
    """

    def __init__(self, *, environment: EnvBase, function: Decides) -> None:
        super().__init__(actions=bounded_actions(environment))
        self.function = function

    def decide(self, batch: TensorDict) -> tuple[Tensor, Tensor]:
        """Ask for every copy."""
        proposed = batch["action"]
        rows, over = [], []
        for copy, (seen, action) in enumerate(zip(batch["observation"], proposed, strict=True)):
            found = self.function(copy, seen, action)
            over.append(found is not None)
            rows.append(action if found is None else as_action(found, action))
        return torch.stack(rows), torch.tensor(over)


def as_action(found: Sequence[float] | Tensor, like: Tensor) -> Tensor:
    """What an intervener did, as a tensor like the policy's action.

    Raises:
        ConfigError: it has not as many numbers, or one is not finite.
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
