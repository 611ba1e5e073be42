"""Copies of a model's trainable weights (reference policies, EMA)."""

from __future__ import annotations

from torch import Tensor, nn
from transformers import PreTrainedModel


class CopiedWeights(nn.Module):
    """Copies of a model's trainable parameters, swapped into the model to run it.

    With adapters the copy costs the adapters, never a second model; tied weights are copied once.
    The copies are buffers, so that they stand in the checkpoint of the component that holds them.

    Args:
        model: what is copied; its own tensors stay its own.
    """

    model: PreTrainedModel

    def __init__(self, model: PreTrainedModel) -> None:
        super().__init__()
        # Past nn.Module: the model's tensors belong to the policy, in checkpoints and optimizers.
        object.__setattr__(self, "model", model)
        for name, parameter in self._trainable().items():
            self.register_buffer(_buffer(name), parameter.detach().clone())

    def weights(self) -> dict[str, Tensor]:
        """The copies by the names of the model's parameters."""
        return {name: self.get_buffer(_buffer(name)) for name in self._trainable()}

    def take(self) -> None:
        """Copy the current weights of the model."""
        trainable = self._trainable()
        for name, copy in self.weights().items():
            copy.copy_(trainable[name].detach())

    def follow(self, share: float) -> None:
        """EMA / Polyak update: ``copy <- share * model + (1 - share) * copy``.

        Args:
            share: of the model as it is now, in [0, 1].
        """
        trainable = self._trainable()
        for name, copy in self.weights().items():
            copy.lerp_(trainable[name].detach(), share)

    def _trainable(self) -> dict[str, Tensor]:
        """The trainable parameters; tied ones once."""
        parameters = self.model.named_parameters()
        return {name: value for name, value in parameters if value.requires_grad}


def _buffer(name: str) -> str:
    # A buffer's name must not hold a dot.
    return name.replace(".", "/")
