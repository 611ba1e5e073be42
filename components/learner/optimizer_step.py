"""Step of an optimiser: gradient norm, clipping, learning rate, and the optimiser's state."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any

import torch
from torch import Tensor
from torch.nn import Parameter

from rlcomp.checkpoint.optimizer_state import (
    check_moment_shapes,
    check_optimizer_state,
    match_optimizer_state,
)
from rlcomp.errors import NumericalError
from rlcomp.model.memory_layout import check_dense, match_strides
from rlcomp.parallel.update_strategy import LocalUpdate


class OptimizerStep:
    """An optimiser with gradient clipping and a learning-rate schedule.

    Args:
        named: the trained parameters with their names.
        strategy: chooses the part of each parameter that is trained here.
        optimizer: called with the named parts.
        schedule: learning-rate multiplier as a function of the phase's progress.
        max_grad_norm: gradients are scaled down to this norm; None for no clipping.

    Attributes:
        names: of the trained parts.
        parameters: the trained parts.
        base_lr: learning rate of each group before the schedule.
    """

    def __init__(
        self,
        named: Iterable[tuple[str, Parameter]],
        strategy: LocalUpdate,
        *,
        optimizer: Callable[[Iterable[tuple[str, Tensor]]], torch.optim.Optimizer],
        schedule: Callable[[float], float],
        max_grad_norm: float | None,
    ) -> None:
        parts = [(name, strategy.trained_part(parameter)) for name, parameter in named]
        self.names = [name for name, _ in parts]
        self.parameters = [parameter for _, parameter in parts]
        self.strategy = strategy
        self.schedule = schedule
        self.max_grad_norm = max_grad_norm
        self.optimizer = optimizer(parts)
        strategy.check(self.optimizer)
        check_dense(self.optimizer)
        self.base_lr = [float(group["lr"]) for group in self.optimizer.param_groups]

    def norm(self, frozen: Collection[str]) -> Tensor:
        """Drop the gradients of frozen parameters; return the norm of the others.

        Raises:
            NumericalError: the norm is not finite; names the first bad gradient.
        """
        for name, parameter in zip(self.names, self.parameters, strict=True):
            if name in frozen:
                parameter.grad = None  # optimisers skip it then, weight decay included
        norm = self.strategy.norm(self.parameters)
        if not bool(norm.isfinite()):
            raise NumericalError(str(self.first_bad_gradient()))
        return norm

    def first_bad_gradient(self) -> str | None:
        """Describe the first gradient that is not finite; the norm alone may overflow as well."""
        gradients = [p.grad for p in self.parameters]
        bad = [n for n, g in enumerate(gradients) if g is not None and not bool(g.isfinite().all())]
        first = self.strategy.smallest(bad[0] if bad else None)
        if first is not None:
            return f"the gradient of {self.names[first]} is not finite"
        if bool(self.strategy.norm(self.parameters).isfinite()):
            return None
        return "the gradient of all parameters together is not finite"

    def take(self, norm: Tensor, progress: float) -> float:
        """Clip the gradient and step; return the learning rate of the first group.

        Args:
            norm: of the gradient.
            progress: of the phase, for the schedule.
        """
        limit = self.max_grad_norm or float("inf")
        torch.nn.utils.clip_grads_with_norm_(self.parameters, limit, norm)
        multiplier = self.schedule(progress)
        for group, base in zip(self.optimizer.param_groups, self.base_lr, strict=True):
            group["lr"] = base * multiplier
        match_strides(self.parameters)
        self.optimizer.step()
        return self.base_lr[0] * multiplier

    def state(self) -> dict[str, Any]:
        """Return the optimiser state of whole parameters."""
        return self.strategy.gather_state(self.optimizer.state_dict(), self.optimizer)

    def matched(self, learner: str, saved: object) -> dict[str, Any]:
        """Check a saved state, and match it with this optimiser by the names of parameters.

        Args:
            learner: its name, for the message.
            saved: of whole parameters.

        Raises:
            CheckpointError: the state is another optimiser's, or of other parameters.
        """
        checked = check_optimizer_state(saved)
        state = match_optimizer_state(learner, checked, self.optimizer.state_dict())
        check_moment_shapes(state["state"], self.optimizer, self.strategy.whole_shape)
        return state

    def load(self, state: dict[str, Any]) -> None:
        """Load a matched state of whole parameters."""
        self.optimizer.load_state_dict(self.strategy.split_state(state, self.optimizer))
