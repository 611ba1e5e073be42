"""Copies of a model's trainable weights (reference policies, EMA)."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping

import torch
from torch import Tensor, nn

from rlcomp.interfaces.policy import ScoresRows


class CopiedWeights(nn.Module):
    """Copies of a policy's trainable weights, swapped into the policy to run it.

    With adapters the copy costs the adapters, never a second model; tied weights are copied once.
    The copies are buffers, so that they stand in the checkpoint of the component that holds them.

    Args:
        policy: what is copied; its own tensors stay its own.
    """

    policy: ScoresRows

    def __init__(self, policy: ScoresRows) -> None:
        super().__init__()
        # Past nn.Module: the policy's tensors belong to the policy, in checkpoints and optimizers.
        object.__setattr__(self, "policy", policy)
        for name, parameter in policy.weights().items():
            self.register_buffer(_buffer(name), parameter.detach().clone())

    def weights(self) -> dict[str, Tensor]:
        """The copies by the names of the policy's weights."""
        return {name: self.get_buffer(_buffer(name)) for name in self.policy.weights()}

    def take(self) -> None:
        """Copy the current weights of the policy."""
        trainable = self.policy.weights()
        for name, copy in self.weights().items():
            copy.copy_(trainable[name].detach())

    def give_back(self) -> None:
        """Copy them back into the policy, which counts it as an update."""
        _write(self.policy.weights(), self.weights())
        self.policy.updated()

    @contextlib.contextmanager
    def in_place(self) -> Iterator[None]:
        """Context in which the policy has the copied weights; behind it, its own again."""
        trainable = self.policy.weights()
        own = {name: parameter.detach().clone() for name, parameter in trainable.items()}
        try:
            _write(trainable, self.weights())
            yield
        finally:
            _write(trainable, own)

    def follow(self, share: float) -> None:
        """EMA / Polyak update: ``copy <- share * model + (1 - share) * copy``.

        Args:
            share: of the model as it is now, in [0, 1].
        """
        trainable = self.policy.weights()
        for name, copy in self.weights().items():
            copy.lerp_(trainable[name].detach(), share)


def _buffer(name: str) -> str:
    # A buffer's name must not hold a dot.
    return name.replace(".", "/")


def _write(trainable: Mapping[str, Tensor], values: Mapping[str, Tensor]) -> None:
    with torch.no_grad():
        for name, value in values.items():
            trainable[name].copy_(value)
