"""Folders whose files are damaged, or say what no folder should: one message, with the file."""

import json
import shutil

import pytest
from transformers import Qwen2Config, Qwen2ForSequenceClassification

from rlcomp.errors import ConfigError, DataError
from rlcomp.model.build import load_causal_lm
from rlcomp.model.pretrained import _check_counts
from rlcomp.model.text_classifier import load_classifier
from rlcomp.testing import tiny_model
from rlcomp.text.tokenizer import character_tokenizer, load_tokenizer

TOKENIZER = character_tokenizer(characters="0123456789")
INDEX = "model.safetensors.index.json"


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    tiny_model(TOKENIZER).save_pretrained(folder)
    TOKENIZER.save_pretrained(folder)
    return folder


@pytest.fixture
def folder(whole, tmp_path):
    return shutil.copytree(whole, tmp_path / "model")


def text(file, content):
    def corrupt(folder):
        (folder / file).write_bytes(content if isinstance(content, bytes) else content.encode())

    return corrupt


def put(file, *keys, value):
    def corrupt(folder):
        whole = json.loads((folder / file).read_text())
        place = whole
        for key in keys[:-1]:
            place = place[key]
        place[keys[-1]] = value
        (folder / file).write_text(json.dumps(whole))

    return corrupt


def config(**settings):
    (name, value), *_ = settings.items()
    return put("config.json", name, value=value)


def named(**settings):
    (name, value), *_ = settings.items()
    return put("tokenizer_config.json", name, value=value)


def parts(*keys, value):
    return put("tokenizer.json", *keys, value=value)


def shards(weight_map):
    def corrupt(folder):
        (folder / "model.safetensors").rename(folder / "model-00001-of-00001.safetensors")
        (folder / INDEX).write_text(json.dumps(weight_map))

    return corrupt


def twice(folder):
    whole = (folder / "config.json").read_text()
    (folder / "config.json").write_text('{"vocab_size": 1,' + whole.lstrip()[1:])


def a_folder_instead(folder):
    (folder / "tokenizer.json").unlink()
    (folder / "tokenizer.json").mkdir()


def small_layers(folder):
    settings = json.loads((folder / "config.json").read_text())
    settings |= {"num_hidden_layers": 9_999, "layer_types": ["full_attention"] * 9_999}
    (folder / "config.json").write_text(json.dumps(settings))


def read(folder):
    tokenizer = load_tokenizer(path=str(folder))
    return load_causal_lm(path=str(folder), tokenizer=tokenizer, context_length=None)


def test_as_many_parts_as_are_allowed_are_read(tmp_path):
    file = tmp_path / "config.json"

    assert _check_counts(file, {"num_labels": 10_000, "eos_token_id": [151_643]}) is None
    with pytest.raises(DataError, match=r"num_labels is 1e\+04, more than 10,000"):
        _check_counts(file, {"num_labels": 10_001})


def pickled_shard(folder):
    shards({"weight_map": {"lm_head.weight": "evil.bin"}})(folder)
    (folder / "evil.bin").write_bytes(b"no pickle, but it is not looked at")


DEEP = '{"a": ' + "[" * 900 + "]" * 900 + "}"
BEYOND = {"<pad>": 0, "<eos>": 10**9, "0": 2}
SINGLE = {"SpecialToken": {"id": "<none>", "type_id": 0}}
TEMPLATE = {"type": "TemplateProcessing", "single": [SINGLE], "pair": [], "special_tokens": {}}

# What is done to a folder, and what is said.
BAD = {
    # No JSON, or none of an object.
    "config a list": (text("config.json", "[]"), "config.json cannot be read (TypeError: it holds"),
    "config null": (text("config.json", "null"), "config.json cannot be read"),
    "config empty": (text("config.json", ""), "config.json cannot be read (JSONDecodeError"),
    "config no UTF-8": (text("config.json", b'{"a": "\xff"}'), "config.json cannot be read (Unic"),
    # A RecursionError up to Python 3.12; later ones read it, and then it has no model_type.
    "config deep": (text("config.json", DEEP), "config.json describes no model ("),
    "config without end": (text("config.json", "[" * 10**5), "config.json cannot be read (Recurs"),
    "a setting twice": (twice, "config.json cannot be read (ValueError: it has 'vocab_size' twice"),
    "NaN": (config(rms_norm_eps=float("nan")), "config.json cannot be read (ValueError: it has a"),
    "generation a list": (text("generation_config.json", "[]"), "generation_config.json cannot be"),
    "tokenizer a text": (text("tokenizer.json", '"x"'), "tokenizer.json cannot be read"),
    "tokenizer cut off": (text("tokenizer.json", '{"a": '), "tokenizer.json cannot be read"),
    "tokenizer a folder": (
        a_folder_instead,
        "tokenizer.json cannot be read (ValueError: it is",
    ),
    "its config a list": (text("tokenizer_config.json", "[]"), "tokenizer_config.json cannot be"),
    "special tokens a list": (text("special_tokens_map.json", "[]"), "special_tokens_map.json can"),
    "added tokens a list": (text("added_tokens.json", "[]"), "added_tokens.json cannot be read"),
    # Settings of the model.
    "no model type": (text("config.json", "{}"), "config.json describes no model"),
    "model type a list": (config(model_type=[]), "config.json describes no model (TypeError"),
    "width a text": (config(hidden_size="x"), "describes no model (StrictDataclassFieldValidation"),
    "vocabulary null": (config(vocab_size=None), "'vocab_size' expected int, got NoneType"),
    "vocabulary negative": (config(vocab_size=-1), "vocab_size is -1, but the tokenizer has 12"),
    "context negative": (config(max_position_embeddings=-3), "(ValueError: it holds -3 tokens)"),
    "layers negative": (config(num_hidden_layers=-1), "config.json describes no model"),
    "no heads": (config(num_attention_heads=0), "no weights at"),
    "activation": (config(hidden_act="gelou"), "that its config describes (KeyError: 'gelou')"),
    "padding outside": (config(pad_token_id=99), "Padding_idx must be within"),
    "EOS a text": (config(eos_token_id="x"), "describes no model"),
    "labels a list": (config(id2label=[]), "describes no model (AttributeError"),
    "dtype a module": (config(dtype="os"), "describes no model"),
    # Settings of the tokenizer.
    "no vocabulary": (parts("model", value={"type": "WordLevel"}), "no tokenizer at"),
    "vocabulary a list": (parts("model", "vocab", value=[]), "expected a map"),
    "an id a text": (parts("model", "vocab", value={"a": "b"}), "expected u32"),
    "an id negative": (parts("model", "vocab", value={"a": -1}), "expected u32"),
    "an id beyond": (parts("model", "vocab", value=BEYOND), "'<eos>' is token 1000000000, beyond"),
    "part of no kind": (parts("pre_tokenizer", value={"type": "x"}), "no tokenizer at"),
    "added tokens empty": (parts("added_tokens", value=[{}]), "(KeyError: 'id')"),
    "a template's token": (parts("post_processor", value=TEMPLATE), "no tokenizer at"),
    "class a list": (named(tokenizer_class=[]), "no tokenizer at"),
    "EOS a number": (named(eos_token=3), "no tokenizer at"),
    "length a text": (named(model_max_length="x"), "no tokenizer at"),
    # Weights.
    "weights empty": (text("model.safetensors", ""), "model.safetensors' (Error while deserial"),
    "index a list": (shards([]), f"{INDEX} cannot be read"),
    "index of nothing": (shards({}), f"{INDEX} names None, which is no safetensors file"),
    "index of a number": (shards({"weight_map": {"a": 3}}), f"{INDEX} names 3, which is no"),
    "index of a list": (shards({"weight_map": ["a"]}), f"{INDEX} names ['a'], which is no"),
    "a file that is gone": (
        shards({"weight_map": {"a": "b.safetensors"}}),
        "names 'b.safetensors'",
    ),
    "a file elsewhere": (
        shards({"weight_map": {"a": "../model/model-00001-of-00001.safetensors"}}),
        "names '../model/model-00001-of-00001.safetensors', which is no safetensors file in its",
    ),
    "a pickled file": (pickled_shard, f"{INDEX} names 'evil.bin', which is no safetensors file"),
    # What says which code reads the weights, or which files.
    "quantised": (config(quantization_config={"quant_method": "bitsandbytes"}), "is quantised"),
    "weights named": (config(transformers_weights="../x.safetensors"), "(transformers_weights)"),
    "an adapter": (
        text("adapter_config.json", '{"base_model_name_or_path": "nobody/nothing"}'),
        "holds an adapter (adapter_config.json), which names its model elsewhere",
    ),
    # Sizes that would fill the memory.
    "wide": (
        config(intermediate_size=10**12),
        "out of proportion to its weights, which hold 2,6",
    ),
    "many tokens": (config(vocab_size=10**10), "config.json describes a model out of proportion"),
    "many layers": (
        config(num_hidden_layers=10**9),
        "num_hidden_layers is 1e+09, more than 10,0",
    ),
    "many small layers": (small_layers, "out of proportion to its weights"),
    "many layers of a kind": (
        config(attention_types=[[["global", "local"], 10**9]]),
        "attention_types is 1e+09, more than 10,000",
    ),
    "many labels": (config(num_labels=10**9), "num_labels is 1e+09, more than 10,000"),
    "a part's layers": (config(text_config={"n_layer": 10**9}), "n_layer is 1e+09, more than"),
    "a huge number": (config(hidden_size=10**400), "that its config describes"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_a_folder_should_not_say_is_one_message(folder, name):
    corrupt, said = BAD[name]
    corrupt(folder)

    with pytest.raises((DataError, ConfigError)) as told:
        read(folder)

    assert said in str(told.value)
    assert str(folder) in str(told.value)
    assert len(str(told.value).splitlines()) == 1


@pytest.mark.parametrize(
    "name", ["config a list", "quantised", "an adapter", "wide", "a pickled file"]
)
def test_a_reward_model_is_read_no_other_way(folder, name):
    corrupt, said = BAD[name]
    corrupt(folder)

    with pytest.raises(DataError) as told:
        load_classifier(str(folder))

    assert said in str(told.value)


def test_the_fault_of_a_model_beside_a_sound_tokenizer_is_told_as_well(folder):
    text("tokenizer.json", "{}")(folder)

    with pytest.raises(DataError, match=r"no tokenizer at .* \(KeyError: 'added_tokens'\)"):
        load_causal_lm(path=str(folder), tokenizer=TOKENIZER, context_length=None)


@pytest.mark.parametrize("name", ["attn_implementation", "_attn_implementation"])
def test_a_config_does_not_choose_the_code_of_attention(folder, name):
    put("config.json", name, value="stranger/kernels")(folder)
    put("config.json", "_experts_implementation", value="stranger/kernels")(folder)

    model = load_causal_lm(path=str(folder), tokenizer=TOKENIZER, context_length=None)

    assert model.config._attn_implementation == "sdpa"
    assert "stranger" not in repr(model.config._experts_implementation)


def test_code_named_beside_a_known_architecture_is_not_looked_at(folder):
    config(auto_map={"AutoConfig": "evil.Config", "AutoModelForCausalLM": "evil.Model"})(folder)

    model = load_causal_lm(path=str(folder), tokenizer=TOKENIZER, context_length=None)

    assert type(model).__module__ == "transformers.models.qwen2.modeling_qwen2"


def test_a_limit_without_end_is_no_nan(folder):
    config(time_step_limit=[0.0, float("inf")])(folder)

    loaded = load_causal_lm(path=str(folder), tokenizer=TOKENIZER, context_length=None)

    assert loaded.config.time_step_limit[1] == float("inf")


def test_weights_in_several_files_are_read(folder, whole):
    model = tiny_model(TOKENIZER)
    (folder / "model.safetensors").unlink()
    model.save_pretrained(folder, max_shard_size="4KB")
    assert len([*folder.glob("model-*.safetensors")]) > 1

    loaded = load_causal_lm(path=str(folder), tokenizer=TOKENIZER, context_length=None)

    assert loaded.lm_head.weight.equal(model.lm_head.weight)


def test_weights_of_a_classifier_that_do_not_fit_are_told(tmp_path):
    sizes = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 2, "num_labels": 2, "pad_token_id": 0}
    settings = Qwen2Config(vocab_size=12, **sizes, **heads)
    Qwen2ForSequenceClassification(settings).save_pretrained(tmp_path)
    TOKENIZER.save_pretrained(tmp_path)
    config(hidden_size=10)(tmp_path)

    with pytest.raises(DataError, match=r"do not fill the model .* \[12, 8\] for \[12, 10\]"):
        load_classifier(str(tmp_path))


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n", "lfs pull"),
        ("", "it is empty: copy or download it again"),
        ("<html>not found</html>", "cut off or is another format"),
    ],
)
def test_a_file_of_weights_that_is_none_is_told_by_what_it_is(folder, content, told):
    (folder / "model.safetensors").write_text(content)

    with pytest.raises(DataError, match=told):
        load_causal_lm(path=str(folder), tokenizer=TOKENIZER, context_length=None)


def test_a_folder_in_place_of_a_file_of_weights_is_one_message(folder):
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors").mkdir()

    with pytest.raises(DataError, match="must be a file that can be read"):
        load_causal_lm(path=str(folder), tokenizer=TOKENIZER, context_length=None)


def test_a_model_with_other_tokens_is_not_told_to_grow(folder):
    larger = character_tokenizer(characters="abcdefghijklmnopqrstuvwxyz")

    with pytest.raises(ConfigError, match=r"another one: its token .*teacher") as error:
        load_causal_lm(path=str(folder), tokenizer=larger, context_length=None)

    assert "resize" not in str(error.value)
