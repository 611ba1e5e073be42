import pytest
import torch
from safetensors.torch import load_file, save_file

from rlcomp.errors import ConfigError, DataError
from rlcomp.model.build import causal_lm, load_causal_lm
from rlcomp.text.tokenizer import character_tokenizer

TOKENIZER = character_tokenizer(characters="0123456789+-*/=()>: ,?")
SIZES = {
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "intermediate_size": 96,
    "context_length": 40,
    "tie_word_embeddings": False,
}


@pytest.mark.parametrize("architecture", ["llama", "qwen2", "qwen3", "gpt2"])
def test_sizes_arrive_in_every_architecture(architecture):
    model = causal_lm(tokenizer=TOKENIZER, architecture=architecture, **SIZES)
    shapes = {tuple(parameter.shape) for parameter in model.parameters()}

    assert model.get_input_embeddings().weight.shape == (24, 64)
    assert {(64, 96), (96, 64)} <= shapes
    assert model.config.num_hidden_layers == 2
    assert model.config.num_attention_heads == 4
    assert model.config.max_position_embeddings == 40
    assert model.dtype == torch.float32


@pytest.mark.parametrize("architecture", ["llama", "qwen2", "qwen3", "gpt2"])
@pytest.mark.parametrize("tie", [True, False])
def test_head_is_tied_on_request(architecture, tie):
    model = causal_lm(
        tokenizer=TOKENIZER, architecture=architecture, **SIZES | {"tie_word_embeddings": tie}
    )

    same = model.get_input_embeddings().weight is model.get_output_embeddings().weight
    assert same is tie


@pytest.mark.parametrize("architecture", ["llama", "qwen2", "qwen3", "gpt2"])
def test_no_dropout_and_every_embedding_is_trained(architecture):
    model = causal_lm(tokenizer=TOKENIZER, architecture=architecture, **SIZES)

    ids = torch.arange(24)[None]
    assert torch.equal(model.train()(ids).logits, model.eval()(ids).logits)
    model(ids).logits.square().sum().backward()
    assert (model.get_input_embeddings().weight.grad != 0).any(1).all()


def test_width_of_heads_follows_from_the_sizes():
    model = causal_lm(
        tokenizer=TOKENIZER, architecture="qwen3", **SIZES | {"num_key_value_heads": 2}
    )

    # 2 key heads of width 64 / 4.
    assert model.model.layers[0].self_attn.k_proj.weight.shape == (32, 64)


def test_construction_follows_the_global_seed():
    weights = []
    for _ in range(2):
        torch.manual_seed(7)
        weights.append(causal_lm(tokenizer=TOKENIZER, **SIZES).lm_head.weight)

    assert torch.equal(*weights)


def test_vocabulary_may_be_larger_than_the_tokenizer():
    model = causal_lm(tokenizer=TOKENIZER, vocab_size=32, **SIZES)

    assert model.config.vocab_size == 32


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"vocab_size": 23}, "vocab_size is 23, but the tokenizer has 24"),
        ({"hidden_size": 66}, "hidden_size is 66"),
        ({"num_key_value_heads": 3}, "num_attention_heads is 4"),
        ({"architecture": "qwen22"}, "did you mean 'qwen2'"),
        ({"architecture": "gpt2", "num_key_value_heads": 2}, "num_key_value_heads to 4, not 2"),
        ({"architecture": "bloom"}, "'bloom' has no setting for intermediate_size"),
        ({"architecture": "mamba"}, "'mamba' has no setting for num_attention_heads"),
        # gpt_neo lists the attention of each of 24 layers.
        ({"architecture": "gpt_neo"}, "'gpt_neo' refuses these settings: (?s:.*)num_layers"),
        (
            {"overrides": {"rms_norm_epsilon": 1.0}},
            r"rms_norm_epsilon.*did you mean 'rms_norm_eps'",
        ),
        ({"overrides": {"hidden_act": "gelou"}}, "'qwen2' refuses these settings: .*gelou"),
    ],
)
def test_settings_that_do_not_fit_are_refused(change, words):
    with pytest.raises(ConfigError, match=words):
        causal_lm(tokenizer=TOKENIZER, **SIZES | change)


def test_the_feed_forward_layer_has_many_names():
    # 2 layers of 64 x 112, one up and one down each.
    sizes = SIZES | {"intermediate_size": 112}
    for architecture in ("opt", "falcon", "gptj"):
        model = causal_lm(tokenizer=TOKENIZER, architecture=architecture, **sizes)
        shapes = [tuple(parameter.shape) for parameter in model.parameters()]

        assert (shapes.count((64, 112)), shapes.count((112, 64))) == (2, 2)


def test_overrides_win():
    overrides = {"rms_norm_eps": 0.5, "num_hidden_layers": 1}

    config = causal_lm(tokenizer=TOKENIZER, **SIZES, overrides=overrides).config

    assert (config.rms_norm_eps, config.num_hidden_layers) == (0.5, 1)


def test_overrides_know_an_architectures_other_names():
    model = causal_lm(
        tokenizer=TOKENIZER, architecture="gpt2", **SIZES, overrides={"num_hidden_layers": 1}
    )

    assert model.config.num_hidden_layers == 1


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    path = tmp_path_factory.mktemp("model")
    model = causal_lm(tokenizer=TOKENIZER, **SIZES)
    model.save_pretrained(path)
    return path, model


def test_saved_weights_come_back(saved):
    path, model = saved

    loaded = load_causal_lm(path=str(path), tokenizer=TOKENIZER, context_length=40)

    ids = torch.arange(10)[None]
    torch.testing.assert_close(loaded(ids).logits, model(ids).logits)
    assert loaded.dtype == torch.float32


def test_a_context_beyond_the_models_is_refused(saved):
    with pytest.raises(ConfigError, match="context_length is 41"):
        load_causal_lm(path=str(saved[0]), tokenizer=TOKENIZER, context_length=41)


def test_a_tokenizer_with_more_tokens_than_the_model_is_refused(saved):
    larger = character_tokenizer(characters="abcdefghijklmnopqrstuvwxyz")

    with pytest.raises(ConfigError, match="the tokenizer has 28 tokens"):
        load_causal_lm(path=str(saved[0]), tokenizer=larger, context_length=None)


def test_a_folder_without_a_model_is_refused(tmp_path):
    with pytest.raises(DataError, match=r"config\.json"):
        load_causal_lm(path=str(tmp_path), tokenizer=TOKENIZER, context_length=None)


def test_a_folder_without_weights_is_refused(saved, tmp_path):
    saved[1].config.save_pretrained(tmp_path)

    with pytest.raises(DataError, match="no weights"):
        load_causal_lm(path=str(tmp_path), tokenizer=TOKENIZER, context_length=None)


def change_weights(path, change):
    weights = load_file(path / "model.safetensors")
    change(weights)
    save_file(weights, path / "model.safetensors", metadata={"format": "pt"})


@pytest.mark.parametrize("tie", [True, False])
def test_tied_weights_are_not_missing(tmp_path, tie):
    model = causal_lm(tokenizer=TOKENIZER, **SIZES | {"tie_word_embeddings": tie})
    model.save_pretrained(tmp_path)

    loaded = load_causal_lm(path=str(tmp_path), tokenizer=TOKENIZER, context_length=None)

    assert torch.equal(loaded.lm_head.weight, model.lm_head.weight)


def test_missing_weights_are_named(saved, tmp_path):
    saved[1].save_pretrained(tmp_path)
    change_weights(tmp_path, lambda weights: weights.pop("model.norm.weight"))

    with pytest.raises(DataError, match=r"do not fill the model .*: no model\.norm\.weight\. Use"):
        load_causal_lm(path=str(tmp_path), tokenizer=TOKENIZER, context_length=None)


def test_weights_of_another_size_are_named(saved, tmp_path):
    saved[1].save_pretrained(tmp_path)
    change_weights(tmp_path, lambda weights: weights.update({"model.norm.weight": torch.ones(9)}))

    with pytest.raises(DataError, match=r"model\.norm\.weight \[9\] for \[64\]"):
        load_causal_lm(path=str(tmp_path), tokenizer=TOKENIZER, context_length=None)


def test_a_long_list_of_missing_weights_is_cut(saved, tmp_path):
    saved[1].save_pretrained(tmp_path)
    change_weights(tmp_path, lambda weights: [weights.pop(k) for k in list(weights) if "proj" in k])

    # q, k, v (weight and bias), o, gate, up, down: 10 in each of 2 layers.
    with pytest.raises(DataError, match="and 15 more"):
        load_causal_lm(path=str(tmp_path), tokenizer=TOKENIZER, context_length=None)
