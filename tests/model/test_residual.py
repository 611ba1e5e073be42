import inspect
import math

import pytest
import torch
from torch import nn

from rlcomp.errors import ConfigError
from rlcomp.model.residual import ResidualNetwork


def network(depth=8, width=16, skip=True, layer_norm=True, **other):
    torch.manual_seed(0)
    sizes = {"in_features": 3, "out_features": 2, "width": width, "depth": depth}
    return ResidualNetwork(**{**sizes, **other}, skip=skip, layer_norm=layer_norm)


def layers(made, kind):
    return [module for module in made.modules() if isinstance(module, kind)]


@pytest.mark.parametrize("depth", [0, 4, 12])
def test_depth_counts_the_layers_in_blocks(depth):
    made = network(depth)

    sizes = [(layer.in_features, layer.out_features) for layer in layers(made, nn.Linear)]
    assert sizes == [(3, 16), *[(16, 16)] * depth, (16, 2)]
    assert len(layers(made, nn.LayerNorm)) == len(layers(made, nn.SiLU)) == depth + 1
    assert len(made.blocks) == depth / 4


def test_without_normalisation_there_is_none():
    assert layers(network(layer_norm=False), nn.LayerNorm) == []


def test_with_zeroed_blocks_any_depth_is_depth_0():
    deep, flat = network(64), network(0)
    flat.load_state_dict(deep.state_dict(), strict=False)
    for weight in deep.blocks.parameters():
        weight.data.zero_()
    seen = torch.randn(5, 3)

    assert torch.equal(deep(seen), flat(seen))


def test_without_skips_zeroed_blocks_let_nothing_through():
    made = network(4, skip=False)
    for weight in made.blocks.parameters():
        weight.data.zero_()

    assert made(torch.randn(5, 3)).tolist() == [[0.0, 0.0]] * 5


def test_a_block_by_hand():
    # Width 1, no normalisation, every weight 1: h(x) = silu four times, x + h(x).
    made = network(4, width=1, layer_norm=False, in_features=1, out_features=1)
    for layer in layers(made, nn.Linear):
        layer.weight.data.fill_(1.0)

    def silu(x):
        return x / (1 + math.exp(-x))

    first = silu(2.0)
    assert made(torch.tensor([[2.0]])).item() == pytest.approx(
        first + silu(silu(silu(silu(first)))), rel=1e-5
    )


def test_inputs_stand_side_by_side():
    made, seen = network(), torch.randn(5, 3)

    assert torch.equal(made(seen[:, :1], seen[:, 1:]), made(seen))


def test_weights_have_a_third_of_the_variance_of_lecun_and_no_bias():
    made = network(256, width=64)

    weights = torch.cat([layer.weight.flatten() for layer in layers(made.blocks, nn.Linear)])
    # 10^6 draws with variance 1 / (3 x 64), uniform within 1/8.
    assert float(weights.detach().var()) == pytest.approx(1 / 192, rel=0.01)
    assert float(weights.detach().abs().max()) == pytest.approx(0.125, rel=0.001)
    assert all(not layer.bias.any() for layer in layers(made, nn.Linear))


def test_gradients_reach_the_first_layer_at_any_depth():
    norms = []
    for depth in (4, 256):
        made = network(depth)
        made(torch.randn(8, 3)).sum().backward()
        norms.append(float(layers(made, nn.Linear)[0].weight.grad.norm()))

    assert 0.1 < norms[1] / norms[0] < 10


@pytest.mark.parametrize("depth", [3, 66])
def test_a_part_of_a_block_is_refused(depth):
    with pytest.raises(ConfigError, match=rf"depth is {depth}: a block has 4 layers"):
        network(depth)


@pytest.mark.parametrize("wrong", [{"depth": -4}, {"width": 0}, {"in_features": 0}])
def test_sizes_that_are_none_are_refused(wrong):
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        network(**wrong)


@pytest.mark.parametrize(
    ("part", "numbers"),
    [(ResidualNetwork, {"width": 256, "depth": 4, "skip": True, "layer_norm": True})],
)
def test_numbers_that_nobody_gives(part, numbers):
    given = inspect.signature(part.__init__).parameters.values()

    assert {p.name: p.default for p in given if isinstance(p.default, (int, float))} == numbers
