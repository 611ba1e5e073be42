"""Replay buffer with draws by priority."""

from __future__ import annotations

import torch
from tensordict import TensorDict
from torch import Tensor

from components.replay.uniform import UniformReplay
from rlcomp.arguments import PositiveFloat, PositiveInt, Probability
from rlcomp.checkpoint.state_fields import field
from rlcomp.component import check_arguments
from rlcomp.errors import CheckpointError
from rlcomp.functional.priority import (
    draw_by_probability,
    importance_weight,
    priority_probability,
)


class PrioritizedReplay(UniformReplay):
    """The last ``capacity`` steps, drawn with ``P(i) ~ p_i^alpha``, ``p_i = |delta_i| + eps``.

    A new row has the greatest priority so far, so that each is drawn soon; the stage
    :class:`~components.replay.reprioritise.Reprioritise` tells the errors of those that were. A
    draw has ``index`` and ``priority_weight`` ``[N]``, which torchrl's losses weigh their rows by.

    Args:
        capacity: rows it holds; the oldest are overwritten.
        alpha: 0: uniform; 1: in proportion to the priority.
        beta: of the importance weights; 1 takes back all that the priorities add.
        epsilon: of the priority of a row without error.

    Source:
        Schaul et al. 2016, arXiv:1511.05952.
    """

    def __init__(
        self,
        *,
        capacity: PositiveInt = 1000000,
        alpha: Probability = 0.6,
        beta: Probability = 0.4,
        epsilon: PositiveFloat = 1e-06,
    ) -> None:
        super().__init__(capacity=capacity)
        given: dict[str, object] = {"alpha": alpha, "beta": beta, "epsilon": epsilon}
        check_arguments(type(self), (), {"capacity": capacity, **given})
        self.alpha, self.beta, self.epsilon = alpha, beta, epsilon
        self.priority = torch.zeros(0)
        self.greatest = 1.0

    def extend(self, rows: TensorDict) -> None:
        """Store rows ``[R]``, over the oldest where it is full, at the greatest priority."""
        first = self.cursor
        super().extend(rows)
        written = (first + torch.arange(len(rows))) % self.capacity
        kept = torch.zeros(len(self))
        kept[: len(self.priority)] = self.priority
        kept[written] = self.greatest
        self.priority = kept

    def sample(self, rows: int) -> TensorDict:
        """Draw so many rows, with replacement."""
        stored = self.stored()
        assert stored is not None
        probability = priority_probability(self.priority, self.alpha)
        index = draw_by_probability(probability, torch.rand(rows, generator=self.generator))
        drawn: TensorDict = stored[index]
        drawn["index"] = index
        drawn["priority_weight"] = importance_weight(probability[index], len(self), self.beta)
        return drawn

    def reprioritise(self, index: Tensor, error: Tensor) -> None:
        """Give rows the priority of their errors; those without a finite one keep theirs.

        Args:
            index: rows, ``[N]``.
            error: ``|delta|``, ``[N]``.
        """
        priority = error.detach().float().abs() + self.epsilon
        # Of a step that the learner skipped: one NaN would be the sum of all probabilities.
        finite = priority.isfinite()
        self.priority[index[finite]] = priority[finite]
        self.greatest = max([self.greatest, *priority[finite].tolist()])

    def run_state(self) -> dict[str, object]:
        """The rows, the place of the next one, and the priorities."""
        return {**super().run_state(), "priority": self.priority, "greatest": self.greatest}

    def load_run_state(self, state: dict[str, object]) -> None:
        """Restore rows, place and priorities.

        Raises:
            CheckpointError: they are no rows of such a replay, or have no such priorities.
        """
        priority = field(state, "priority", Tensor)
        greatest = field(state, "greatest", PositiveFloat)
        super().load_run_state(state)
        finite = bool(priority.isfinite().all() & (priority >= 0).all())
        if priority.shape != (len(self),) or not finite:
            raise CheckpointError(
                f"priorities of shape {list(priority.shape)} are not those of {len(self)} rows, "
                "each at least 0"
            )
        self.priority, self.greatest = priority.clone(), greatest
