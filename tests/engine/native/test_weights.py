import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

from rlcomp.engine.architectures import layers
from rlcomp.engine.native.weights import NativeModel, unsupported_model
from rlcomp.engine.transformer import Transformer


def llama(**changed):
    shape = dict(
        vocab_size=11, hidden_size=12, intermediate_size=20, num_hidden_layers=3,
        num_attention_heads=4, num_key_value_heads=2, head_dim=6,
    )  # fmt: skip
    return LlamaForCausalLM(LlamaConfig(**{**shape, **changed})).eval()


def described(model, positions=5, kernel="torch"):
    return NativeModel(Transformer(model, layers, kernel), positions)


@torch.no_grad()
def test_the_struct_has_the_sizes_and_addresses_of_the_model():
    model = llama()
    actual = described(model)
    struct, layer = actual.struct, actual.struct.layer[2]
    attention = model.model.layers[2].self_attn

    assert (struct.layers, struct.hidden, struct.heads, struct.kv_heads) == (3, 12, 4, 2)
    assert (struct.head_size, struct.inner, struct.activation) == (6, 20, 0)
    assert struct.scale == 6**-0.5
    assert struct.embedding == model.model.embed_tokens.weight.data_ptr()
    assert struct.position_embedding is None
    assert layer.k.weight == attention.k_proj.weight.data_ptr()
    assert (layer.k.bias, layer.k.outputs, layer.k.inputs) == (None, 12, 12)
    assert layer.gate.weight == model.model.layers[2].mlp.gate_proj.weight.data_ptr()
    assert layer.up.weight == model.model.layers[2].mlp.up_proj.weight.data_ptr()
    assert layer.of_queries.weight is None
    assert (layer.before_feed.centred, layer.before_feed.eps) == (0, 1e-6)
    assert (struct.head.outputs, actual.vocabulary) == (11, 11)
    # 3 layers, 2 heads, keys and values of 6 features filled up to 16, 4 bytes each.
    assert actual.token_bytes == 3 * 2 * 2 * 16 * 4


@torch.no_grad()
def test_the_joint_qkv_matrix_of_gpt2_is_split():
    model = GPT2LMHeadModel(GPT2Config(vocab_size=11, n_embd=12, n_layer=1, n_head=3)).eval()
    actual = described(model)
    layer = actual.struct.layer[0]

    assert layer.k.weight - layer.q.weight == layer.v.weight - layer.k.weight == 12 * 12 * 4
    assert layer.k.bias - layer.q.bias == 12 * 4
    assert (layer.gate.weight, actual.struct.cosine, actual.struct.activation) == (None, None, 1)
    assert layer.before_attention.centred == 1
    assert layer.before_attention.eps == 1e-5
    assert actual.struct.position_embedding == model.transformer.wpe.weight.data_ptr()


def test_attention_scaled_by_layer_is_unsupported():
    config = GPT2Config(
        vocab_size=11, n_embd=12, n_layer=2, n_head=3, scale_attn_by_inverse_layer_idx=True
    )

    why = unsupported_model(Transformer(GPT2LMHeadModel(config).eval(), layers, "torch"))

    assert why == "the scale of its attention differs by layer (scale_attn_by_inverse_layer_idx)"


@pytest.mark.parametrize(
    ("model", "kernel", "why"),
    [
        (llama(), "torch", None),
        (llama(), "onednn", None),
        (llama().double(), "torch", "the weights are float64, not float32"),
        (llama().to("meta"), "torch", "the model is on meta"),
        (llama(), "bfloat16", "engine.linear is bfloat16"),
        (llama(hidden_act="relu"), "torch", "its activation is ReLU"),
    ],
)
def test_unsupported_model_gives_the_reason(model, kernel, why):
    assert unsupported_model(Transformer(model, layers, kernel)) == why


def test_compute_in_bfloat16_is_unsupported():
    transformer = Transformer(llama(), layers, "torch", False, torch.bfloat16)

    assert unsupported_model(transformer) == "engine.compute is bfloat16"
