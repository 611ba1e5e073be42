"""Prioritised replay."""

from __future__ import annotations

import torch
from tensordict import TensorDict
from torch import Tensor

from components.replay.uniform import UniformReplay
from rlcomp.arguments import PositiveFloat, PositiveInt, Probability
from rlcomp.checkpoint.state_fields import field
from rlcomp.component import Component, check_arguments
from rlcomp.errors import CheckpointError
from rlcomp.functional.value import draw_by_probability, importance_weight, priority_probability
from rlcomp.interfaces.protocols import HasTdErrors
from rlcomp.metrics import record


class PrioritizedReplay(UniformReplay):
    """Replay of the last ``capacity`` steps, ``P(i) ~ p_i^alpha``, ``p_i = |delta_i| + eps``.

    ``P(i)`` is the probability of row ``i``, ``p_i`` its priority and ``delta_i`` its error. A new
    row has the greatest priority so far. :class:`Reprioritise` updates the priorities. Samples have
    ``index``, the positions of the rows in the replay, and ``priority_weight``, by which torchrl's
    losses weight the rows; ``[N]`` each.

    Args:
        capacity: largest number of rows; a full replay overwrites the oldest.
        alpha: exponent of the priorities; 0: uniform draws, 1: proportional to the priority.
        beta: exponent of the importance weights; 1 corrects the priorities fully.
        epsilon: ``eps``, priority of a row with error 0.

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
        arguments: dict[str, object] = {"alpha": alpha, "beta": beta, "epsilon": epsilon}
        check_arguments(type(self), (), {"capacity": capacity, **arguments})
        self.alpha, self.beta, self.epsilon = alpha, beta, epsilon
        self.priority = torch.zeros(0)
        self.greatest = 1.0

    def extend(self, rows: TensorDict) -> None:
        """Store rows ``[R]`` at the greatest priority; a full replay overwrites the oldest."""
        first = self.cursor
        super().extend(rows)
        index = (first + torch.arange(len(rows))) % self.capacity
        priority = torch.zeros(len(self))
        priority[: len(self.priority)] = self.priority
        priority[index] = self.greatest
        self.priority = priority

    def sample(self, rows: int) -> TensorDict:
        """Return ``rows`` rows, drawn with replacement by priority."""
        memory = self.rows()
        assert memory is not None
        probability = priority_probability(self.priority, self.alpha)
        index = draw_by_probability(probability, torch.rand(rows, generator=self.generator))
        sample: TensorDict = memory[index]
        sample["index"] = index
        sample["priority_weight"] = importance_weight(probability[index], len(self), self.beta)
        return sample

    def reprioritise(self, index: Tensor, error: Tensor) -> None:
        """Set the priorities of rows by their errors; a non-finite error changes no priority.

        Args:
            index: positions of the rows in the replay, ``[N]``.
            error: ``|delta|``, ``[N]``.
        """
        priority = error.detach().float().abs() + self.epsilon
        # A skipped step has NaN errors, and one NaN would make all probabilities NaN.
        finite = priority.isfinite()
        self.priority[index[finite]] = priority[finite]
        self.greatest = max([self.greatest, *priority[finite].tolist()])

    def run_state(self) -> dict[str, object]:
        """Return the rows, the position of the next row, and the priorities."""
        return {**super().run_state(), "priority": self.priority, "greatest": self.greatest}

    def load_run_state(self, state: dict[str, object]) -> None:
        """Restore the rows, the position of the next row, and the priorities.

        Raises:
            CheckpointError: the rows do not fit the replay, or the priorities do not fit the rows.
        """
        priority = field(state, "priority", Tensor)
        greatest = field(state, "greatest", PositiveFloat)
        super().load_run_state(state)
        finite = bool(priority.isfinite().all() & (priority >= 0).all())
        if priority.shape != (len(self),) or not finite:
            raise CheckpointError(
                f"priorities of shape {list(priority.shape)}: must be {len(self)} finite numbers, "
                "one for each row, each at least 0"
            )
        self.priority, self.greatest = priority.clone(), greatest


class Reprioritise(Component):
    """Stage after the learner that passes the errors of a loss to a prioritised replay.

    Records ``replay/error``, the mean error in reward units.

    Args:
        loss: the loss with the errors of its last rows.
        replay: the replay of the rows.
    """

    def __init__(self, *, loss: HasTdErrors, replay: PrioritizedReplay) -> None:
        super().__init__()
        # Bypass nn.Module, because the loss is another node's submodule.
        object.__setattr__(self, "loss", loss)
        self.replay = replay

    def forward(self, batch: TensorDict) -> TensorDict:
        """Pass the errors to the replay, if the loss has computed any; return the batch."""
        if self.loss.errors is not None:
            index, error = self.loss.errors
            self.replay.reprioritise(index, error)
            record("replay/error", error)
        return batch
