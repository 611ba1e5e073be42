"""Step of an optimiser with gradient clipping and a learning-rate schedule."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any

import torch
from torch import Tensor
from torch.nn import Parameter

from rlcomp.checkpoint.optimizer_state import (
    check_moments,
    check_optimizer_state,
    match_optimizer_state,
)
from rlcomp.errors import NumericalError
from rlcomp.model.optimizer import check_dense, match_strides
from rlcomp.parallel.update_strategy import LocalUpdate


class OptimizerStep:
    """An optimiser with gradient clipping and a learning-rate schedule.

    Args:
        named: names and trained parameters.
        strategy: strategy that chooses the part of each parameter that this process trains.
        optimizer: function of the named parts that returns an optimiser.
        schedule: learning-rate multiplier as a function of the phase's progress.
        max_grad_norm: largest norm of the gradient; a larger gradient is scaled down to it. None:
            no clipping.

    Attributes:
        names: name of each trained part.
        parameters: the trained parts.
        base_lr: learning rate of each parameter group before the schedule.
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
        """Clear the gradients of frozen parameters; return the norm of the remaining gradient.

        Raises:
            NumericalError: the norm is not finite; the message names the first such gradient.
        """
        for name, parameter in zip(self.names, self.parameters, strict=True):
            if name in frozen:
                parameter.grad = None  # So the optimiser skips it, including its weight decay.
        norm = self.strategy.norm(self.parameters)
        if not bool(norm.isfinite()):
            raise NumericalError(str(self.first_bad_gradient()))
        return norm

    def first_bad_gradient(self) -> str | None:
        """Return a message about the first gradient that is not finite; None: all are finite.

        If all gradients are finite, their common norm may still overflow.
        """
        gradients = [p.grad for p in self.parameters]
        bad = [n for n, g in enumerate(gradients) if g is not None and not bool(g.isfinite().all())]
        first = self.strategy.smallest(bad[0] if bad else None)
        if first is not None:
            return f"the gradient of {self.names[first]} is not finite"
        if bool(self.strategy.norm(self.parameters).isfinite()):
            return None
        return "the norm of the whole gradient is not finite"

    def take(self, norm: Tensor, progress: float) -> float:
        """Clip the gradient and step; return the learning rate of the first group.

        Args:
            norm: norm of the gradient.
            progress: progress of the phase, for the schedule.
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

    def match_state(self, learner: str, saved: object) -> dict[str, Any]:
        """Return a saved state, checked and in the order of this optimiser's parameters.

        Args:
            learner: name of the learner, for the message.
            saved: optimiser state of whole parameters, matched by their names.

        Raises:
            CheckpointError: the state is of another optimiser or of other parameters.
        """
        checked = check_optimizer_state(saved)
        state = match_optimizer_state(learner, checked, self.optimizer.state_dict())
        check_moments(state["state"], self.optimizer, self.strategy.whole_shape)
        return state

    def load(self, state: dict[str, Any]) -> None:
        """Load a state of whole parameters from :meth:`match_state`."""
        self.optimizer.load_state_dict(self.strategy.split_state(state, self.optimizer))
