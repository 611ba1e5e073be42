"""A learner's share of an optimiser step, where the learner is one process: all of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from tensordict import TensorDict
from tensordict.nn import TensorDictModuleBase
from torch import Tensor, nn
from torch.nn import Parameter

from rlcomp.parallel.dealing import Split

# A micro-batch to its losses by name, whose gradient is then in ``.grad``.
Pass = Callable[[TensorDict], dict[str, float]]
# Makes the passes over rows that it splits by what it is given; outputs for all rows by key.
Forward = Callable[[Callable[[TensorDict], Iterable[TensorDict]]], dict[str, Tensor]]


class Share:
    """The share of a learner that is one process.

    Args:
        module: what its passes run on; None where the losses hold their own models.

    Attributes:
        in_parts: whether this process trains parts of parameters.
        alone: whether it reads all rows of a step.
    """

    in_parts = False
    alone = True

    def __init__(self, module: TensorDictModuleBase | None) -> None:
        self.module = module

    def part(self, parameter: Parameter) -> Parameter:
        """What this process trains of a parameter."""
        return parameter

    def shape(self, part: Tensor) -> torch.Size:
        """The shape of the parameter that a part is of."""
        return part.shape

    def check(self, optimizer: torch.optim.Optimizer) -> None:
        """Refuse an optimiser that cannot step parts.

        Raises:
            ConfigError: names it.
        """

    def together(self, learner: nn.Module, method: str, *given: object) -> Any:  # noqa: ANN401
        """Call a method of the learner on all ranks."""
        return getattr(learner, method)(*given)

    def add_up(
        self,
        rows: TensorDict,
        split: Split,
        one: Pass,
        idle: Pass,
        *,
        names: Sequence[str],
        parts: Iterable[nn.Module],
    ) -> dict[str, float]:
        """The losses of a step by name, whose gradient is then in ``.grad`` of what is trained.

        Args:
            rows: of the whole step, the same on all ranks.
            split: into micro-batches.
            one: a pass.
            idle: a pass that adds nothing.
            names: of the losses.
            parts: whose plain numbers the passes add up.

        Raises:
            NumericalError: of a pass, of any rank's.
        """
        del idle, parts
        totals = dict.fromkeys(names, 0.0)
        for micro in split(rows, None):
            for name, value in one(micro).items():
                totals[name] += value
        return totals

    def nothing(self, seen: TensorDict) -> None:
        """End a pass that has no loss."""

    def forward_of_all(self, forward: Forward, split: Split) -> dict[str, Tensor]:
        """Outputs without gradient for all rows, ``[B, ...]`` by key."""
        return forward(lambda rows: split(rows, None))

    def rest(self) -> None:
        """Called behind passes without gradient."""

    def norm(self, parameters: Sequence[Parameter]) -> Tensor:
        """The norm of the gradient in ``.grad`` of what is trained."""
        return torch.nn.utils.get_total_norm([p.grad for p in parameters if p.grad is not None])

    def first(self, number: int | None) -> int | None:
        """The smallest of the ranks' numbers; None where no rank has one."""
        return number

    def total(self, tensor: Tensor) -> Tensor:
        """The sum of what the ranks' passes have added up beside ``.grad``."""
        return tensor

    def union(self, numbers: set[int]) -> set[int]:
        """The numbers that any rank has."""
        return numbers

    def whole(self, state: dict[str, Any], optimizer: torch.optim.Optimizer) -> dict[str, Any]:
        """The state of an optimiser of parts, as a checkpoint holds it."""
        del optimizer
        return state

    def own(self, state: dict[str, Any], optimizer: torch.optim.Optimizer) -> dict[str, Any]:
        """This process's part of such a state."""
        del optimizer
        return state

    def gather(self) -> None:
        """Give the model of rank 0 what was trained."""
