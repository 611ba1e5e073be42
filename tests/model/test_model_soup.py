import math
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rlcomp.checkpoint.reader import open_checkpoint
from rlcomp.config.compose import compose_config
from rlcomp.config.resolve import plan_of
from rlcomp.errors import ConfigError, ShapeError
from rlcomp.model.adapters import has_adapters, lora, merge_adapters
from rlcomp.model.build import load_causal_lm
from rlcomp.model.model_soup import average, mix_models, soup
from rlcomp.run.launch import launch
from rlcomp.testing import tiny_model
from rlcomp.text.tokenizer import character_tokenizer

TOKENIZER = character_tokenizer(characters="ab")
IDS = torch.tensor([[2, 3, 2]])
# peft's own doubt whether such a model can be merged.
TIED = "ignore:Model has `tie_word_embeddings=True`"


def make_model(seed=0, **settings):
    return tiny_model(TOKENIZER, seed=seed, **settings)


def adapted(seed, target_modules="all-linear", **model):
    """One base for all seeds, its own adapters for each."""
    base = make_model(0, **model)
    made = lora(model=base, rank=2, alpha=4.0, target_modules=target_modules)
    torch.manual_seed(100 + seed)
    with torch.no_grad():
        for name, parameter in made.named_parameters():
            if "lora_" in name:
                parameter.normal_(std=0.3)
    return made


def state(**tensors):
    return {name: torch.tensor(values) for name, values in tensors.items()}


def test_weights_are_averaged_by_hand():
    # 0.25 * [1, 2] + 0.75 * [5, -2] = [4, -1]; counts are the first one's.
    mean = average(
        {"a": state(w=[1.0, 2.0], n=[3]), "b": state(w=[5.0, -2.0], n=[8])},
        {"b": 0.75, "a": 0.25},
    )

    assert mean["w"].tolist() == [4.0, -1.0]
    assert mean["n"].tolist() == [3]


@given(st.integers(0, 2), st.sampled_from([torch.float32, torch.bfloat16, torch.float16]))
def test_all_weight_on_one_expert_gives_it_bit_by_bit(chosen, dtype):
    torch.manual_seed(chosen)
    experts = {name: {"w": torch.randn(7).to(dtype)} for name in "abc"}
    experts["abc"[chosen - 1]]["w"][0] = math.nan
    weights = {name: float(index == chosen) for index, name in enumerate("abc")}

    mean = average(experts, weights)["w"]

    assert mean.dtype == dtype
    assert torch.equal(mean, experts["abc"[chosen]]["w"])


@given(st.integers(1, 6))
def test_the_mean_of_equals_is_the_same(experts):
    torch.manual_seed(experts)
    one = {"w": torch.randn(50)}

    mean = average(dict.fromkeys(range(experts), one), dict.fromkeys(range(experts), 1 / experts))

    assert torch.equal(mean["w"], one["w"])


def test_sums_are_not_taken_in_half_precision():
    # In bfloat16 256 + 1 is 256: eight addends of 1 would vanish beside it.
    experts = {0: {"w": torch.tensor([2048.0]).bfloat16()}}
    experts |= {index: {"w": torch.tensor([8.0]).bfloat16()} for index in range(1, 8)}

    mean = average(experts, dict.fromkeys(experts, 1 / 8))["w"]

    assert float(mean) == torch.tensor(256 + 7.0).bfloat16().item()


@pytest.mark.parametrize(
    "weights", [{"a": 0.5, "b": 0.6}, {"a": 1.5, "b": -0.5}, {"a": math.nan, "b": 1.0}]
)
def test_weights_must_be_a_convex_combination(weights):
    with pytest.raises(ConfigError, match="must be at least 0 and sum to 1"):
        average({"a": state(w=[1.0]), "b": state(w=[1.0])}, weights)


def test_every_expert_has_a_weight_and_no_other():
    experts = {"right": state(w=[1.0]), "short": state(w=[1.0])}

    with pytest.raises(ConfigError, match="'shrt'; did you mean 'short'"):
        average(experts, {"right": 0.5, "shrt": 0.5})
    with pytest.raises(ConfigError, match="none for 'short'"):
        average(experts, {"right": 1.0})


def test_tensors_that_do_not_fit_are_named():
    with pytest.raises(ShapeError, match="the tensor 'more'"):
        average({"a": state(w=[1.0]), "b": state(w=[1.0], more=[1.0])}, {"a": 0.5, "b": 0.5})
    with pytest.raises(ShapeError, match=r"'w' is \[1\] in 'a', \[2\] in 'b'"):
        average({"a": state(w=[1.0]), "b": state(w=[1.0, 2.0])}, {"a": 0.5, "b": 0.5})
    with pytest.raises(ShapeError, match=r"'model.embed_tokens.weight' is \[4, 16\]"):
        mix_models({"a": make_model(), "b": make_model(hidden_size=8)}, {"a": 0.5, "b": 0.5})


@pytest.mark.parametrize("architecture", ["qwen2", "gpt2"])
def test_tied_weights_are_averaged_once_and_stay_tied(architecture):
    models = {"a": make_model(1, architecture=architecture, tie_word_embeddings=True),
              "b": make_model(2, architecture=architecture, tie_word_embeddings=True)}  # fmt: skip
    one, other = (m.get_input_embeddings().weight.detach().clone() for m in models.values())

    made = mix_models(models, {"a": 0.25, "b": 0.75})

    assert made.get_output_embeddings().weight is made.get_input_embeddings().weight
    torch.testing.assert_close(made.get_input_embeddings().weight, 0.25 * one + 0.75 * other)


def test_one_hot_is_the_expert():
    expected = make_model(2)(IDS).logits

    made = mix_models({"a": make_model(1), "b": make_model(2)}, {"a": 0.0, "b": 1.0})

    assert torch.equal(made(IDS).logits, expected)


@pytest.mark.parametrize("architecture", ["qwen2", "gpt2"])
def test_merged_adapters_leave_a_plain_model_that_says_the_same(architecture, tmp_path):
    model = adapted(1, architecture=architecture)
    expected, keys = model(IDS).logits, make_model(architecture=architecture).state_dict().keys()

    made = merge_adapters(model)
    made.save_pretrained(tmp_path)

    # A merged matrix rounds once more.
    torch.testing.assert_close(made(IDS).logits, expected, atol=1e-5, rtol=1e-4)
    assert not has_adapters(made)
    assert made.state_dict().keys() == keys
    assert not (tmp_path / "adapter_config.json").exists()
    assert (tmp_path / "model.safetensors").exists()


@pytest.mark.filterwarnings(TIED)
@pytest.mark.parametrize("target", [["lm_head"], ["embed_tokens"], ["lm_head", "embed_tokens"]])
@pytest.mark.parametrize("tie", [True, False])
def test_merged_adapters_of_head_or_embedding_say_the_same(target, tie, tmp_path):
    model = adapted(1, target_modules=target, tie_word_embeddings=tie)
    expected = model(IDS).logits

    made = merge_adapters(model)
    made.save_pretrained(tmp_path)
    again = load_causal_lm(path=str(tmp_path), tokenizer=TOKENIZER, context_length=None)

    torch.testing.assert_close(made(IDS).logits, expected, atol=1e-5, rtol=1e-4)
    assert not made.config.tie_word_embeddings
    assert torch.equal(again(IDS).logits, made(IDS).logits)


def test_a_tied_model_whose_ends_have_no_adapter_stays_tied():
    made = merge_adapters(adapted(1, tie_word_embeddings=True))

    assert made.get_output_embeddings().weight is made.get_input_embeddings().weight
    assert made.config.tie_word_embeddings


@pytest.mark.filterwarnings(TIED)
def test_soups_of_tied_models_with_adapted_heads_are_means_of_what_they_add():
    models = {
        name: adapted(seed, target_modules=["lm_head"], tie_word_embeddings=True)
        for seed, name in ((1, "a"), (2, "b"))
    }
    table = make_model(0, tie_word_embeddings=True).get_input_embeddings().weight.detach()
    heads = [model.get_output_embeddings() for model in models.values()]
    # alpha / rank is 2.
    deltas = [2 * h.lora_B["default"].weight @ h.lora_A["default"].weight for h in heads]
    added = 0.5 * (deltas[0] + deltas[1]).detach()

    made = mix_models(models, {"a": 0.5, "b": 0.5})

    torch.testing.assert_close(made.get_input_embeddings().weight.detach(), table)
    torch.testing.assert_close(made.get_output_embeddings().weight.detach(), table + added)


def test_adapters_are_averaged_as_what_they_add():
    base = make_model(0)
    models = {"a": adapted(1), "b": adapted(2)}
    layers = {name: m.model.layers[0].self_attn.q_proj for name, m in models.items()}
    # alpha / rank is 2.
    A = {name: layer.lora_A["default"].weight.detach() for name, layer in layers.items()}
    B = {name: layer.lora_B["default"].weight.detach() for name, layer in layers.items()}
    deltas = 2 * (0.5 * B["a"] @ A["a"] + 0.5 * B["b"] @ A["b"])
    factors = 2 * (0.5 * B["a"] + 0.5 * B["b"]) @ (0.5 * A["a"] + 0.5 * A["b"])

    made = mix_models(models, {"a": 0.5, "b": 0.5})

    q_proj = base.model.layers[0].self_attn.q_proj.weight.detach()
    mean = made.model.layers[0].self_attn.q_proj.weight.detach()
    torch.testing.assert_close(mean, q_proj + deltas, atol=1e-6, rtol=1e-5)
    assert float((mean - (q_proj + factors)).abs().max()) > 0.1
    assert all(parameter.requires_grad for parameter in made.parameters())


TINY = [
    "~phases.rl",
    "phases.warm_start.steps=2",
    "phases.warm_start.every.evaluation=null",
    "task=addition",
    "task.digits=1",
    "demonstrations.batch_size=8",
    "model.hidden_size=16",
    "model.intermediate_size=16",
    "prompts.batch_size=2",
]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Two short runs."""
    folder = tmp_path_factory.mktemp("soup")
    for seed in (0, 1):
        config = compose_config([f"directory={folder}/{seed}", f"seed={seed}", *TINY])
        launch(config, plan_of(config))
    return {"a": str(folder / "0"), "b": str(folder / "1")}


def digits():
    return character_tokenizer(characters="0123456789+-*/=()>: ,?")


def saved(path):
    tensors = open_checkpoint(path).tensors()
    return {k.removeprefix("model:"): v for k, v in tensors.items() if k.startswith("model:")}


def test_the_models_of_two_runs_are_averaged(runs, tmp_path):
    a, b = (saved(Path(path)) for path in runs.values())

    made = soup(runs=runs, weights={"a": 0.25, "b": 0.75}, tokenizer=digits())

    for name, parameter in made.named_parameters():
        torch.testing.assert_close(parameter.detach(), 0.25 * a[name] + 0.75 * b[name])
    # A folder counts like a run.
    made.save_pretrained(tmp_path / "folder")
    both = {"mean": str(tmp_path / "folder"), "a": runs["a"]}
    again = soup(runs=both, weights={"mean": 1.0, "a": 0.0}, tokenizer=digits())
    assert torch.equal(again.lm_head.weight, made.lm_head.weight)


def test_a_soup_is_evaluated_and_trained_like_any_model(runs, tmp_path):
    small = ["task=addition", "task.digits=1", "prompts.batch_size=2", "evaluation.num_prompts=4",
             "demonstrations.batch_size=8"]  # fmt: skip
    choice = ["model=soup", f"model.runs={{a: {runs['a']}, b: {runs['b']}}}",
              "model.weights={a: 0.5, b: 0.5}"]  # fmt: skip
    more = {
        "scored": ["experiment=evaluation_only"],
        "trained": ["~phases.rl", "phases.warm_start.steps=1"],
    }
    for name, own in more.items():
        config = compose_config([f"directory={tmp_path}/{name}", *small, *choice, *own])
        launch(config, plan_of(config))

    assert "evaluation/greedy" in (tmp_path / "scored" / "metrics.jsonl").read_text()
    before = soup(runs=runs, weights={"a": 0.5, "b": 0.5}, tokenizer=digits())
    after = saved(tmp_path / "trained")["lm_head.weight"]
    assert not torch.equal(after, before.lm_head.weight)


def test_a_tokenizer_of_another_size_is_refused(runs):
    wide = character_tokenizer(characters="0123456789+-*/=()>: ,?abcdef")

    with pytest.raises(ConfigError, match="tokenizer has"):
        soup(runs=runs, weights={"a": 0.5, "b": 0.5}, tokenizer=wide)


@pytest.mark.parametrize("saved_as", ["run", "folder"])
def test_a_tokenizer_of_other_tokens_is_refused(runs, tmp_path, saved_as):
    other = character_tokenizer(characters="1023456789+-*/=()>: ,?")
    soup(runs=runs, weights={"a": 1.0, "b": 0.0}, tokenizer=digits()).save_pretrained(tmp_path)
    digits().save_pretrained(tmp_path)
    path = runs["a"] if saved_as == "run" else str(tmp_path)

    with pytest.raises(ConfigError, match=r"its token 2 is '0' \(3 in this one\)"):
        soup(runs={"a": path}, weights={"a": 1.0}, tokenizer=other)
