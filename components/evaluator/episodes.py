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
    """Evaluator of the return of one greedy episode in every copy of an environment.

    Records ``evaluation/return``, the mean over the copies. Every evaluation has the same starts.

    Args:
        environment: an environment of its own, not the one of the training.
        policy: the policy; takes its most likely actions.
        max_steps: steps after which an episode is cut; its rewards so far count.
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
    """Play the first episode of every copy greedily; return the entries after each step.

    The episodes are the same each time.

    Args:
        environment: ``N`` copies.
        policy: the policy.
        num_steps: most steps of a copy; ended episodes restart until all copies have ended one.
        seed: seed of the environment.

    Returns:
        Entries ``[N, T, ...]`` of ``next``.
    """
    environment.set_seed(seed)
    played: list[TensorDict] = []
    with torch.no_grad(), set_exploration_type(ExplorationType.DETERMINISTIC):
        observed = environment.reset()
        ended = torch.zeros_like(observed["done"])
        while len(played) < num_steps and not bool(ended.all()):
            stepped, observed = environment.step_and_maybe_reset(policy(observed))
            played.append(stepped["next"])
            ended |= stepped["next", "done"]
    rows: TensorDict = torch.stack(played, dim=1)
    return rows


def first_return(reward: Tensor, done: Tensor) -> Tensor:
    """Return the undiscounted return of the first episode in each row.

    Args:
        reward: shape ``[N, T, 1]``; entries after the first end are ignored.
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
