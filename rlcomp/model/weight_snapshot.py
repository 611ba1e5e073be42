"""Snapshot of a policy's trainable weights (reference policies, EMA)."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping

import torch
from torch import Tensor, nn

from rlcomp.interfaces.policy import ScoresRows


class WeightSnapshot(nn.Module):
    """Snapshot of a policy's trainable weights, swapped into the policy to run it.

    With adapters the snapshot has the size of the adapters, not of a second model. Tied weights are
    copied once. The copies are buffers: a checkpoint saves them with the component that holds the
    snapshot.

    Args:
        policy: the policy; its tensors stay its own, and swaps copy values into them.
    """

    policy: ScoresRows

    def __init__(self, policy: ScoresRows) -> None:
        super().__init__()
        # Not registered in nn.Module: the policy's tensors belong to the policy.
        object.__setattr__(self, "policy", policy)
        for name, parameter in policy.weights().items():
            self.register_buffer(_buffer_name(name), parameter.detach().clone())

    def weights(self) -> dict[str, Tensor]:
        """Return the copies by the names of the policy's weights."""
        return {name: self.get_buffer(_buffer_name(name)) for name in self.policy.weights()}

    def take(self) -> None:
        """Copy the policy's current weights into the snapshot."""
        trainable = self.policy.weights()
        for name, copy in self.weights().items():
            copy.copy_(trainable[name].detach())

    def give_back(self) -> None:
        """Copy the snapshot into the policy, and count an update."""
        _write(self.policy.weights(), self.weights())
        self.policy.updated()

    @contextlib.contextmanager
    def in_place(self) -> Iterator[None]:
        """Swap the snapshot into the policy within the context; this counts no update."""
        trainable = self.policy.weights()
        current = {name: parameter.detach().clone() for name, parameter in trainable.items()}
        try:
            _write(trainable, self.weights())
            yield
        finally:
            _write(trainable, current)

    def follow(self, share: float) -> None:
        """Update by EMA (Polyak): ``copy <- share * model + (1 - share) * copy``."""
        trainable = self.policy.weights()
        for name, copy in self.weights().items():
            copy.lerp_(trainable[name].detach(), share)


def _buffer_name(name: str) -> str:
    # The name of a buffer must not contain a dot.
    return name.replace(".", "/")


def _write(trainable: Mapping[str, Tensor], values: Mapping[str, Tensor]) -> None:
    with torch.no_grad():
        for name, value in values.items():
            trainable[name].copy_(value)
