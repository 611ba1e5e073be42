"""Mean return of the greedy policy over episodes."""

from __future__ import annotations

import torch
from tensordict import TensorDict
from tensordict.nn import TensorDictModuleBase
from torch import Tensor
from torchrl.envs import EnvBase, ExplorationType, set_exploration_type

from rlcomp.arguments import PositiveInt
from rlcomp.component import Component
from rlcomp.metrics import record


class Episodes(Component):
    """Runs one greedy episode in every copy of an environment and records the return.

    Records ``evaluation/return``, the mean over the copies. Every evaluation has the same starts.

    Args:
        environment: its own, not the one training goes on in.
        policy: plays its most likely actions.
        max_steps: longer episodes are cut and count with the rewards so far.
    """

    def __init__(
        self, *, environment: EnvBase, policy: TensorDictModuleBase, max_steps: PositiveInt = 500
    ) -> None:
        super().__init__()
        self.environment = environment
        self.policy = policy
        self.max_steps = max_steps
        self.seed = torch.initial_seed() % 2**31

    def forward(self, batch: TensorDict) -> TensorDict:
        """Evaluate and record; ignores the training batch."""
        played = greedy_steps(self.environment, self.policy, self.max_steps, self.seed)
        record("evaluation/return", first_return(played["reward"], played["done"]))
        return batch


def greedy_steps(
    environment: EnvBase, policy: TensorDictModuleBase, num_steps: int, seed: int
) -> TensorDict:
    """First episodes under the policy's most likely actions: what follows each step.

    The same episodes each time.

    Args:
        environment: ``N`` copies.
        policy: acts in it.
        num_steps: the most of each copy; ended episodes begin anew until all copies have ended one.
        seed: of the environment.

    Returns:
        Entries ``[N, T, ...]`` of ``next``.
    """
    environment.set_seed(seed)
    played: list[TensorDict] = []
    with torch.no_grad(), set_exploration_type(ExplorationType.DETERMINISTIC):
        seen = environment.reset()
        ended = torch.zeros_like(seen["done"])
        while len(played) < num_steps and not bool(ended.all()):
            stepped, seen = environment.step_and_maybe_reset(policy(seen))
            played.append(stepped["next"])
            ended |= stepped["next", "done"]
    rows: TensorDict = torch.stack(played, dim=1)
    return rows


def first_return(reward: Tensor, done: Tensor) -> Tensor:
    """Undiscounted return of the first episode in each row.

    Args:
        reward: shape ``[N, T, 1]``; what follows the first end may be anything.
        done: bool, same shape: the episode ended with this step.

    Returns:
        Shape ``[N]``, in reward units.

    Examples:
        >>> reward = torch.tensor([1.0, 2.0, 4.0]).view(1, 3, 1)
        >>> first_return(reward, torch.tensor([False, True, True]).view(1, 3, 1))
        tensor([3.])
    """
    earlier = done.cumsum(1) - done.long()
    return torch.where(earlier == 0, reward, 0.0).sum((1, 2))
