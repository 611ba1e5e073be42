"""Deep residual networks for control."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from rlcomp.arguments import NonNegativeInt, PositiveInt
from rlcomp.component import check_arguments
from rlcomp.errors import ConfigError

_BLOCK = 4  # layers between one skip connection and the next


class ResidualBlock(nn.Module):
    """Block ``x + h(x)``; ``h`` is four times a layer, LayerNorm and SiLU.

    Args:
        width: width of every layer.
        skip: whether ``x`` is added; without it the block is ``h(x)``.
        layer_norm: whether layers are normalised.
    """

    def __init__(self, width: int, *, skip: bool, layer_norm: bool) -> None:
        super().__init__()
        self.layers = nn.Sequential(*(_layer(width, width, layer_norm) for _ in range(_BLOCK)))
        self.skip = skip

    def forward(self, hidden: Tensor) -> Tensor:
        """Compute the block, ``[N, width]``."""
        change: Tensor = self.layers(hidden)
        return hidden + change if self.skip else change


class ResidualNetwork(nn.Module):
    """Network of a layer, ``depth / 4`` residual blocks and a linear layer.

    Weights are uniform with variance ``1 / (3 fan_in)``, biases 0.

    Args:
        in_features: size of all inputs together.
        out_features: size of the output.
        width: width of every hidden layer.
        depth: number of layers in blocks, a multiple of 4.
        skip: whether blocks add their input.
        layer_norm: whether layers are normalised.

    Raises:
        ConfigError: ``depth`` is no multiple of 4.

    Source:
        Wang et al. 2025, arXiv:2503.14858, section 4.
    """

    def __init__(
        self,
        *,
        in_features: PositiveInt,
        out_features: PositiveInt,
        width: PositiveInt = 256,
        depth: NonNegativeInt = 4,
        skip: bool = True,
        layer_norm: bool = True,
    ) -> None:
        super().__init__()
        sizes = {"in_features": in_features, "out_features": out_features, "width": width}
        parts = {"depth": depth, "skip": skip, "layer_norm": layer_norm}
        check_arguments(type(self), (), {**sizes, **parts})
        if depth % _BLOCK:
            raise ConfigError(f"depth is {depth}: a block has {_BLOCK} layers, so a multiple of it")
        self.first = _layer(in_features, width, layer_norm)
        self.blocks = nn.Sequential(
            *(
                ResidualBlock(width, skip=skip, layer_norm=layer_norm)
                for _ in range(depth // _BLOCK)
            )
        )
        self.last = _linear(width, out_features)

    def forward(self, *inputs: Tensor) -> Tensor:
        """Compute ``[N, out_features]`` of the concatenated inputs."""
        hidden: Tensor = self.last(self.blocks(self.first(torch.cat(inputs, dim=-1))))
        return hidden


def _layer(inputs: int, width: int, layer_norm: bool) -> nn.Sequential:
    norm = [nn.LayerNorm(width)] if layer_norm else []
    return nn.Sequential(_linear(inputs, width), *norm, nn.SiLU())


def _linear(inputs: int, outputs: int) -> nn.Linear:
    layer = nn.Linear(inputs, outputs)
    # torch's default weights are those of ResidualNetwork: U(-b, b) with b = fan_in^-1/2 has
    # variance b^2 / 3.
    nn.init.zeros_(layer.bias)
    return layer
