"""Intervention by a function that is called before every step."""

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
