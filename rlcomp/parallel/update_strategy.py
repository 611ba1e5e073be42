"""Update strategy of a learner in one process."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from tensordict import TensorDict
from tensordict.nn import TensorDictModuleBase
from torch import Tensor, nn
from torch.nn import Parameter

from rlcomp.parallel.load_balancing import Split

# Adds the gradient of a micro-batch to ``.grad``; returns its losses by name.
Pass = Callable[[TensorDict], dict[str, float]]
# Runs passes over rows; its argument splits the rows. Returns outputs for all rows by key.
Forward = Callable[[Callable[[TensorDict], Iterable[TensorDict]]], dict[str, Tensor]]


class LocalUpdate:
    """Update strategy of a learner in one process.

    Args:
        module: module of the passes; None if the losses hold their own models.

    Attributes:
        is_sharded: whether this process trains parts of parameters.
        splits_rows: whether the learner may read the rows of a step that need no gradient
            separately, without a backward pass.
    """

    is_sharded = False
    splits_rows = True

    def __init__(self, module: TensorDictModuleBase | None) -> None:
        self.module = module

    def trained_part(self, parameter: Parameter) -> Parameter:
        """Return the part of a parameter that this process trains."""
        return parameter

    def whole_shape(self, part: Tensor) -> torch.Size:
        """Return the shape of the parameter that a part belongs to."""
        return part.shape

    def check(self, optimizer: torch.optim.Optimizer) -> None:
        """Check that an optimiser can step the trained parts.

        Raises:
            ConfigError: the optimiser cannot; the message names its class.
        """

    def run(self, learner: nn.Module, method: str, *arguments: object) -> Any:  # noqa: ANN401
        """Call a method of the learner in all processes; return its result here."""
        return getattr(learner, method)(*arguments)

    def accumulate(
        self,
        rows: TensorDict,
        split: Split,
        run_pass: Pass,
        idle_pass: Pass,
        *,
        names: Sequence[str],
        parts: Iterable[nn.Module],
    ) -> dict[str, float]:
        """Add the gradient of a step to ``.grad`` of the trained parts; return its losses by name.

        Args:
            rows: rows of the whole step, the same in all processes.
            split: splits rows into micro-batches.
            run_pass: adds the gradient of a micro-batch.
            idle_pass: takes part in a pass of other processes; its gradient is 0.
            names: names of the losses.
            parts: modules whose Python numbers, and buffers of one number, the passes add to.

        Raises:
            NumericalError: a pass raised it, in any process; ``.grad`` is then invalid.
        """
        del idle_pass, parts
        totals = dict.fromkeys(names, 0.0)
        for micro in split(rows, None):
            for name, value in run_pass(micro).items():
                totals[name] += value
        return totals

    def backward_zero(self, outputs: TensorDict) -> None:
        """End a pass that has no loss: other processes may wait for its backward pass."""

    def forward_all(self, forward: Forward, split: Split) -> dict[str, Tensor]:
        """Return outputs without gradient for all rows, ``[B, ...]`` by key."""
        return forward(lambda rows: split(rows, None))

    def end_forward(self) -> None:
        """End passes without gradient."""

    def norm(self, parameters: Sequence[Parameter]) -> Tensor:
        """Return the norm of the gradient in ``.grad`` of the trained parts."""
        return torch.nn.utils.get_total_norm([p.grad for p in parameters if p.grad is not None])

    def smallest(self, number: int | None) -> int | None:
        """Return the smallest number of all processes; None if no process has a number."""
        return number

    def total(self, tensor: Tensor) -> Tensor:
        """Return the sum of a tensor over processes."""
        return tensor

    def union(self, numbers: set[int]) -> set[int]:
        """Return the numbers that any process has."""
        return numbers

    def gather_state(
        self, state: dict[str, Any], optimizer: torch.optim.Optimizer
    ) -> dict[str, Any]:
        """Return the optimiser state of whole parameters from the state of the parts."""
        del optimizer
        return state

    def split_state(
        self, state: dict[str, Any], optimizer: torch.optim.Optimizer
    ) -> dict[str, Any]:
        """Return this process's part of the optimiser state of whole parameters."""
        del optimizer
        return state

    def write_back(self) -> None:
        """Copy the trained values into the model of rank 0; no-op where they are the model's."""
