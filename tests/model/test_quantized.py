import pytest
import torch
from torch import nn

from rlcomp.engine.engine import Engine
from rlcomp.errors import ConfigError
from rlcomp.model.adapters import adapters_off, dequantize, lora, merge_adapters, qlora, quantize
from rlcomp.testing import tiny_model
from rlcomp.text.tokenizer import character_tokenizer

IDS = torch.tensor([[2, 3, 2]])
# NormalFloat, Dettmers et al. 2023, appendix E.
NF4 = [
    -1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635,
    -0.18477343022823334, -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725,
    0.24611230194568634, 0.33791524171829224, 0.44070982933044434, 0.5626170039176941,
    0.7229568362236023, 1.0,
]  # fmt: skip


def make_model(architecture="qwen2"):
    tokenizer = character_tokenizer(characters="ab")
    return tiny_model(
        tokenizer,
        architecture=architecture,
        num_hidden_layers=2,
        hidden_size=64,
        intermediate_size=64,
    )


def with_adapters(architecture="qwen2"):
    model = lora(model=quantize(make_model(architecture)), rank=2, alpha=4.0)
    torch.manual_seed(0)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora_B" in name:
                parameter.normal_()
    return model


def test_weights_on_the_grid_of_each_block_come_back_as_they_were():
    model = make_model()
    layer = model.model.layers[1].mlp.down_proj
    # A row is a block of 64. All have one scale, for the scales are rounded as well.
    wanted = 3.0 * torch.tensor([NF4 * 4, (NF4 * 4)[::-1]] * 32)
    with torch.no_grad():
        layer.weight.copy_(wanted)
        layer.weight[2, 5] += 0.01  # off the grid by less than half a step, 3 * (.18 - .09) / 2

    rounded = quantize(model).model.layers[1].mlp.down_proj

    torch.testing.assert_close(dequantize(rounded).weight.data, wanted, rtol=1e-6, atol=0)
    assert rounded.weight.numel() * rounded.weight.element_size() == 64 * 64 // 2
    assert not rounded.weight.requires_grad


def test_the_head_the_embedding_and_biases_keep_their_precision():
    model = make_model()
    before = {
        name: value.clone() for name, value in model.named_parameters() if "proj.weight" not in name
    }

    after = dict(quantize(model).named_parameters())

    assert "lm_head.weight" in before
    assert "model.layers.0.self_attn.q_proj.bias" in before
    for name, value in before.items():
        assert torch.equal(after[name], value), name


@pytest.mark.parametrize("architecture", ["qwen2", "gpt2"])
def test_adapters_on_four_bits_train_alone_and_switch_off(architecture):
    rounded = quantize(make_model(architecture))
    base = rounded(IDS).logits.detach()
    model = lora(model=rounded, rank=2, alpha=4.0)

    torch.testing.assert_close(model(IDS).logits, base)
    model(IDS).logits.square().sum().backward()
    moved = {name for name, value in model.named_parameters() if value.grad is not None}
    per_layer = 7 if architecture == "qwen2" else 4
    assert len(moved) == 2 * 2 * per_layer
    assert all("lora_" in name for name in moved)

    other = with_adapters(architecture)
    adapted = other(IDS).logits
    with adapters_off(other):
        torch.testing.assert_close(other(IDS).logits, base)
    assert (adapted - base).abs().max() > 0.1


@pytest.mark.parametrize("architecture", ["qwen2", "gpt2"])
def test_merged_they_are_a_plain_model_that_says_the_same(architecture):
    model = with_adapters(architecture)
    adapted = model(IDS).logits.detach()

    merged = merge_adapters(model)

    torch.testing.assert_close(merged(IDS).logits, adapted, atol=1e-4, rtol=1e-4)
    kinds = {type(module).__name__ for module in merged.modules()}
    assert not {"Linear4bit", "ModuleDict"} & kinds
    assert all(value.dtype == torch.float32 for value in merged.parameters())


def test_our_own_forward_pass_leaves_them_to_transformers(caplog):
    assert Engine().transformer(with_adapters().eval()) is None
    assert "its weights are in four bits" in caplog.text


def test_without_a_gpu_it_is_refused_by_name(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)

    with pytest.raises(ConfigError, match=r"qlora multiplies .* on a GPU.*adapter=lora"):
        qlora(model=make_model(), rank=2, alpha=4.0)


def test_a_model_without_linear_layers_is_refused():
    with pytest.raises(ConfigError, match="qlora finds no linear layer"):
        quantize(_NoLayers())


class _NoLayers(nn.Module):
    def get_output_embeddings(self):
        return None
